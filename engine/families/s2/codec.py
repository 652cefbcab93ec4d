"""The codec of an S2 or S1 release.

Two files are supported: `codec.pth` of the Fish Audio releases (its state dict may be nested under `state_dict`, names
may begin with `generator.`), and `codec.safetensors` with the same names. Weight-normed convolutions are folded into
plain weights. The whole file is checked, but only the tensors of a view are read and allocated.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from engine.checks import listed
from engine.codec.codec import Codec, CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.errors import InvalidCheckpoint, ReleaseNotFound
from engine.release.weights import Shape, StoredTensor, StoredTensors, compare, load_weights, open_file, shapes_of

_SAVED_BUFFERS = (".causal_mask", ".freqs_cis")  # ignored: these tables are computed
_NORM_PAIR = re.compile(r"(.*\.)(?:parametrizations\.weight\.original([01])|weight_([gv]))")

_View = TypeVar("_View", bound=nn.Module)


def codec_files(folder: Path) -> tuple[Path, CodecConfig]:
    """Return the weights file and the sizes of the codec in a release folder. Without a config, S2-Pro's sizes apply.

    Raises ReleaseNotFound if the folder has no codec and InvalidConfig if its config is unusable.
    """
    for name in ("codec.safetensors", "codec.pth"):
        if (folder / name).exists():
            own = folder / "codec_config.json"
            return folder / name, CodecConfig.from_json(own) if own.exists() else CodecConfig.s2_pro()
    raise ReleaseNotFound("release.no_codec")


def load_codec_encoder(path: Path, config: CodecConfig, device: torch.device | str = "cpu") -> CodecEncoder:
    """Load the encoder view of the codec file at `path`, in fp32. Only its own tensors are read or allocated.

    Raises InvalidCheckpoint, naming the tensors, for unexpected, missing or misshapen ones; ReleaseIncomplete if the
    file is truncated or damaged; ReleaseNotFound if it does not exist.
    """
    return _load(CodecEncoder, path, config, device)


def load_codec_decoder(path: Path, config: CodecConfig, device: torch.device | str = "cpu") -> CodecDecoder:
    """Load the decoder view of the codec file at `path`; otherwise as `load_codec_encoder`."""
    return _load(CodecDecoder, path, config, device)


def load_codec(path: Path, config: CodecConfig, device: torch.device | str = "cpu") -> Codec:
    """Load the whole codec from the file at `path`, for training and tests; otherwise as `load_codec_encoder`."""
    return _load(Codec, path, config, device)


def _load(view: Callable[[CodecConfig], _View], path: Path, config: CodecConfig, device: torch.device | str) -> _View:
    if not path.exists():
        raise ReleaseNotFound("release.no_file", file=path.name)
    with torch.device("meta"):
        module = view(config)
    tensors = fold_weight_norm(path, open_file(path))
    mismatch = compare(tensors, _whole_shapes(config), required=shapes_of(module))
    _refuse(path, "has unexpected tensors:", mismatch.unexpected)
    _refuse_shapes(path, ((each.name, each.shape, each.expected) for each in mismatch.misshapen))
    _refuse(path, "lacks", mismatch.missing)
    # Copy, so that the weights do not depend on the file after loading.
    load_weights(module, tensors, dtype=torch.float32, device=device, copy=True)
    return module.eval()


@lru_cache(maxsize=1)
def _whole_shapes(config: CodecConfig) -> dict[str, Shape]:
    """Return the shapes of the whole codec's weights by name. Its modules are made once for both views."""
    with torch.device("meta"):
        return shapes_of(Codec(config))


def fold_weight_norm(path: Path, stored: StoredTensors) -> StoredTensors:
    """Join the norm and the direction of weight-normed tensors; drop the prefix `generator.` and saved buffers.

    If a tensor is stored twice, the second keeps its full name. Raises InvalidCheckpoint for half a pair, a misshapen
    norm, or a weight stored both plain and normed.
    """
    parts: dict[str, dict[str, StoredTensor]] = {}
    for key, tensor in stored.items():
        name, part = _role(key)
        if name.endswith(_SAVED_BUFFERS):
            continue
        if part in parts.get(name, {}):
            name, part = key, "plain"
        parts.setdefault(name, {})[part] = tensor
    pairs = {name: found for name, found in parts.items() if "plain" not in found}
    halves = [next(iter(found.values())).name for found in pairs.values() if len(found) == 1]
    _refuse(path, "has one half of a normed weight:", halves)
    doubles = [name for name, found in parts.items() if "plain" in found and len(found) > 1]
    _refuse(path, "has a weight both plain and normed:", doubles)
    wanted = ((found["norm"], _norm_shape(found["direction"])) for found in pairs.values())
    _refuse_shapes(path, ((norm.name, norm.shape, shape) for norm, shape in wanted if norm.shape != shape))
    return {name: found["plain"] if name not in pairs else _folded(**found) for name, found in parts.items()}


def _norm_shape(direction: StoredTensor) -> tuple[int, ...]:
    return (*direction.shape[:1], *[1] * (len(direction.shape) - 1))


def _folded(norm: StoredTensor, direction: StoredTensor) -> StoredTensor:
    """Return the plain weight of a norm and a direction, computed in fp32 on the target device."""

    def read(device: torch.device) -> Tensor:
        factor, unscaled = (each.read(device).to(device, torch.float32) for each in (norm, direction))
        length = torch.linalg.vector_norm(unscaled, dim=tuple(range(1, unscaled.dim())), keepdim=True)
        weight: Tensor = unscaled * (factor / length)
        return weight

    return StoredTensor(direction.name, direction.shape, read)


def _role(key: str) -> tuple[str, str]:
    """Return the name of the weight that a key belongs to, and the part it holds: "plain", "norm" or "direction"."""
    name = key.removeprefix("generator.")
    if (pair := _NORM_PAIR.fullmatch(name)) is None:
        return name, "plain"
    return pair[1] + "weight", "norm" if pair[2] == "0" or pair[3] == "g" else "direction"


def _refuse_shapes(path: Path, found: Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> None:
    lines = (f"{name[:200]} {list(shape)[:8]} instead of {list(expected)}" for name, shape, expected in found)
    _refuse(path, "has misshapen tensors:", lines)


def _refuse(path: Path, what: str, names: Iterable[str]) -> None:
    found = sorted(names)
    if found:
        raise InvalidCheckpoint(f"The codec {path.name} {what} {listed(found)}.")
