"""Reading a codec's weights: strictly, only what a view needs, with no second copy.

Two containers are understood: `codec.pth` of the Fish Audio S2-Pro and S1-mini releases (maybe nested under
`state_dict`, keys maybe prefixed `generator.`), and `codec.safetensors` with the same names. Weight-normed
convolutions are folded into plain weights. The file is mapped while loading: each tensor goes from it to its
final dtype and device at once, with no copy in between.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from engine.codec.codec import Codec, CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.errors import InvalidCheckpoint, ReleaseNotFound
from engine.files.tensors import TensorFile, open_tensors

# Tables that the release saved beside its weights; ours are computed.
_SAVED_BUFFERS = (".causal_mask", ".freqs_cis")
_NORM_PAIR = re.compile(r"(.*\.)(?:parametrizations\.weight\.original([01])|weight_([gv]))")

_View = TypeVar("_View", bound=nn.Module)


def codec_files(folder: Path) -> tuple[Path, CodecConfig]:
    """The weights and sizes of the codec in a release's folder; S2-Pro's sizes where it names none.

    Raises ReleaseNotFound when the folder holds no codec and InvalidConfig for a config that cannot be used.
    """
    for name in ("codec.safetensors", "codec.pth"):
        if (folder / name).exists():
            own = folder / "codec_config.json"
            return folder / name, CodecConfig.from_json(own) if own.exists() else CodecConfig.s2_pro()
    raise ReleaseNotFound("The model's folder holds no codec: neither codec.safetensors nor codec.pth is there.")


def load_codec_encoder(
    path: str | Path,
    config: CodecConfig,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> CodecEncoder:
    """Encoder view of the codec file at `path`. Only its own tensors are read or allocated.

    Keep `dtype` fp32 for real use: in bf16 many codes change.
    Raises InvalidCheckpoint, naming them, for unexpected, missing or misshapen tensors, ReleaseIncomplete for a file
    that is cut short or damaged and ReleaseNotFound without the file.
    """
    return _load(CodecEncoder, Path(path), config, torch.device(device), dtype)


def load_codec_decoder(
    path: str | Path,
    config: CodecConfig,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> CodecDecoder:
    """Decoder view of the codec file at `path`; otherwise as `load_codec_encoder`."""
    return _load(CodecDecoder, Path(path), config, torch.device(device), dtype)


def load_codec(
    path: str | Path,
    config: CodecConfig,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Codec:
    """The whole codec of the file at `path`, for training and tests; otherwise as `load_codec_encoder`."""
    return _load(Codec, Path(path), config, torch.device(device), dtype)


@dataclass(frozen=True)
class _Weight:
    """Where the file keeps a weight: plain under `keys[0]`, or as a norm and a direction under both."""

    keys: tuple[str, ...]

    def read(self, tensors: TensorFile, device: torch.device, dtype: torch.dtype) -> Tensor:
        if len(self.keys) == 1:
            # A copy, so that neither the mapping nor the file's fate outlives loading.
            return tensors.read(self.keys[0]).to(device, dtype, copy=True)
        norm, direction = (tensors.read(key).to(device, torch.float32) for key in self.keys)
        length = torch.linalg.vector_norm(direction, dim=tuple(range(1, direction.dim())), keepdim=True)
        folded: Tensor = direction * (norm / length)
        return folded.to(dtype)


def _load(
    view: Callable[[CodecConfig], _View],
    path: Path,
    config: CodecConfig,
    device: torch.device,
    dtype: torch.dtype,
) -> _View:
    with torch.device("meta"):
        module, whole = view(config), Codec(config)
    tensors = _open(path)
    weights = _locate(path, tensors, {name: tuple(t.shape) for name, t in whole.state_dict().items()})
    wanted = list(module.state_dict())
    _refuse(path, "lacks", (name for name in wanted if name not in weights))
    state = {name: weights[name].read(tensors, device, dtype) for name in wanted}
    module.load_state_dict(state, strict=True, assign=True)
    return module.requires_grad_(False).eval()


def _open(path: Path) -> TensorFile:
    if not path.exists():
        raise ReleaseNotFound(f"There is no {path.name} in the model's folder; it is not a whole model release.")
    return open_tensors(path)


def _locate(path: Path, tensors: TensorFile, expected: dict[str, tuple[int, ...]]) -> dict[str, _Weight]:
    """Where each weight of the codec is kept. Whatever else the file holds is an error that names it."""
    parts: dict[str, dict[str, str]] = {}
    misshapen = []
    unexpected = []
    for key, shape in tensors.shapes.items():
        name, part = _role(key)
        if name.endswith(_SAVED_BUFFERS):
            continue
        if name not in expected or part in parts.setdefault(name, {}):
            unexpected.append(key)
            continue
        parts[name][part] = key
        right = expected[name]
        if part == "norm":
            right = (right[0], *[1] * (len(right) - 1))
        if shape != right:
            misshapen.append(f"{key[:200]} {list(shape)[:8]} instead of {list(right)}")
    _refuse(path, "has unexpected tensors:", unexpected)
    _refuse(path, "has misshapen tensors:", misshapen)
    halves = [next(iter(found.values())) for found in parts.values() if len(found) == 1 and "plain" not in found]
    _refuse(path, "has one half of a normed weight:", halves)
    doubles = [name for name, found in parts.items() if "plain" in found and len(found) > 1]
    _refuse(path, "has a weight both plain and normed:", doubles)
    return {
        name: _Weight((found["plain"],) if "plain" in found else (found["norm"], found["direction"]))
        for name, found in parts.items()
    }


def _role(key: str) -> tuple[str, str]:
    """The weight that a key of the file belongs to, and which part of it the key holds."""
    name = key.removeprefix("generator.")
    if (pair := _NORM_PAIR.fullmatch(name)) is None:
        return name, "plain"
    return pair[1] + "weight", "norm" if pair[2] == "0" or pair[3] == "g" else "direction"


def _refuse(path: Path, what: str, names: Iterable[str]) -> None:
    found = sorted(names)
    if found:
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        named = ", ".join(name[:200] for name in found[:8])
        raise InvalidCheckpoint(f"The codec {path.name} {what} {named}{more}.")
