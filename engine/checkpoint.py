"""Finding a model release, reading it strictly, and placing its weights.

Two layouts are read: `fish_qwen3_omni` (S2-Pro: sharded safetensors) and `dual_ar` (S1-mini: one `model.pth`). Modules
are built without memory (meta device); each tensor goes from the mapped file to its final dtype and device at once.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.config import DualARConfig, parse_dual_ar, parse_omni
from engine.errors import (
    InvalidCheckpoint,
    InvalidConfig,
    ReleaseForbidden,
    ReleaseIncomplete,
    ReleaseNotFound,
)
from engine.models.fast_ar import FastAR
from engine.models.slow_ar import SlowAR
from engine.quantization import Precision, Stack, check, quantize
from engine.sampling import SamplingOptions
from engine.tokenizer import Tokenizer

BUNDLED = Path(__file__).resolve().parent.parent / "assets" / "bundled"
Progress = Callable[[str, float], None]

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = [
    "*.json",
    "*.safetensors",
    "*.pth",
    "tokenizer.tiktoken",
    "lexicon.json.gz",
]
_FISH_NOTICE = (
    "Fish Audio's weights are under the Fish Audio Research License: free for research and non-commercial use. "
    "Clone only voices whose owners have agreed."
)


@dataclass(frozen=True)
class Profile:
    """What a release says of itself beyond its sizes (`reprise.json`, ours and optional).

    max_segment_bytes: the longest text, in UTF-8 bytes, that is given to the model as one turn.
    context_positions: how many positions of earlier turns the model has in view in a long text; 1024 are about 40 s of
        speech. A model that was trained on fewer turns loses its words in more.
    style_tags: whether tags such as `[whisper]` change how the model speaks.
    temperature: at which the model speaks best, unless somebody asks for another; see `SamplingOptions`.
    notice: shown where the model is named.
    """

    max_segment_bytes: int = 300
    context_positions: int = 1024
    style_tags: bool = True
    temperature: float = SamplingOptions.temperature
    notice: str = _FISH_NOTICE

    @classmethod
    def load(cls, folder: Path) -> "Profile":
        path = folder / "reprise.json"
        if not path.exists():
            return cls()
        values = read_json(path)
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise InvalidConfig(f"{path} has settings that Reprise does not know: {', '.join(unknown)}.")
        return cls(**values)


@dataclass(frozen=True)
class DualAR:
    """A loaded release without its codec."""

    config: DualARConfig
    tokenizer: Tokenizer
    slow: SlowAR
    fast: FastAR


def read_json(path: Path) -> dict[str, Any]:
    """Raises ReleaseIncomplete when the file is missing, InvalidConfig when it is not a JSON object."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReleaseIncomplete(f"{path.parent} has no {path.name}; it is not a whole model release.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} is not valid JSON ({error}); download it again.") from error
    if not isinstance(values, dict):
        raise InvalidConfig(f"{path} does not hold a JSON object; download it again.")
    return values


def find_release(model: str | Path, progress: Progress | None = None) -> Path:
    """The folder of a release: `bundled`, a local folder, or a Hub id such as `fishaudio/s2-pro` (downloaded once).

    `HF_TOKEN` is used for gated repositories. Raises ReleaseNotFound, ReleaseForbidden or ReleaseIncomplete.
    """
    if str(model) == "bundled":
        return BUNDLED
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ReleaseNotFound(f"{folder} is a file; give the folder that holds the model's config.json.")
    if isinstance(model, str) and _HUB_ID.fullmatch(model) and not model.startswith("."):
        return _download(model, progress)
    raise ReleaseNotFound(f"There is no folder {model}; give a model folder or a Hub id such as fishaudio/s2-pro.")


def notice_of(model: str) -> str:
    """What a model is licensed for, as far as it can be said before it is downloaded; see `Profile.notice`.

    Raises ReleaseNotFound for what is neither a folder nor a Hub id, InvalidConfig.
    """
    if str(model) == "bundled" or Path(model).expanduser().exists() or not _HUB_ID.fullmatch(model):
        return Profile.load(find_release(model)).notice
    from huggingface_hub import try_to_load_from_cache

    known = try_to_load_from_cache(model, "reprise.json")
    return Profile.load(Path(known).parent).notice if isinstance(known, str) else Profile.notice


def _download(repo: str, progress: Progress | None) -> Path:
    from huggingface_hub import errors as hub
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                repo,
                allow_patterns=_HUB_FILES,
                token=os.environ.get("HF_TOKEN") or None,
                tqdm_class=_progress_bar(progress) if progress else None,
            )
        )
    except hub.GatedRepoError as error:
        raise ReleaseForbidden(
            f"{repo} is gated: accept its licence on its Hugging Face page, then set HF_TOKEN to your access token."
        ) from error
    except hub.RepositoryNotFoundError as error:
        raise ReleaseNotFound(
            f"Hugging Face has no repository {repo}, or it is private: check the name, or set HF_TOKEN."
        ) from error
    except (hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled, hub.HfHubHTTPError, OSError) as error:
        raise ReleaseIncomplete(
            f"{repo} could not be downloaded completely; check the network and free disk space, then start again: "
            "what has arrived is kept."
        ) from error


def _progress_bar(progress: Progress) -> type:
    from tqdm.auto import tqdm

    class Reporting(tqdm):  # type: ignore[type-arg]  # tqdm's stubs are generic, the class is not
        def update(self, n: float | None = 1) -> bool | None:
            shown: bool | None = super().update(n)
            if self.total:
                progress(str(self.desc or "Downloading the model"), min(1.0, self.n / self.total))
            return shown

    return Reporting


def read_config(folder: Path) -> DualARConfig:
    """The sizes of the release in `folder`, before its weights are read. Raises as `load_dual_ar` does."""
    return _config(read_json(folder / "config.json"), Tokenizer.load(folder))


def _config(raw: dict[str, Any], tokenizer: Tokenizer) -> DualARConfig:
    kind = raw.get("model_type")
    if kind == "fish_qwen3_omni":
        return parse_omni(raw)
    if kind == "dual_ar":
        return parse_dual_ar(raw, tokenizer.semantic_start_id, tokenizer.semantic_end_id(raw.get("codebook_size", 0)))
    raise InvalidConfig(
        f"The model's config.json says model_type {kind!r}; Reprise reads fish_qwen3_omni (S2) and dual_ar (S1)."
    )


def load_dual_ar(
    folder: Path, *, dtype: torch.dtype, device: torch.device | str, precision: Precision | None = None
) -> DualAR:
    """Both transformers of the release in `folder`, in `dtype` on `device`.

    With int8, int4 or fp8 as `precision` the blocks' weights are quantized as they arrive, one block at a time, so
    that the device never holds them all in `dtype`; other precisions say no more than `dtype` does.

    Raises InvalidConfig, InvalidCheckpoint or ReleaseIncomplete, naming what is wrong, and DeviceUnavailable or
    InvalidOption, before anything is read, for a precision that cannot be had here.
    """
    if precision is not None:
        check(precision, device, dtype)
    raw = read_json(folder / "config.json")
    tokenizer = Tokenizer.load(folder)
    config = _config(raw, tokenizer)
    omni = raw["model_type"] == "fish_qwen3_omni"
    parts = split_omni(_safetensors(folder)) if omni else split_flat(_pickled(folder / "model.pth"))
    if config.semantic_start_id != tokenizer.semantic_start_id:
        raise InvalidCheckpoint(
            f"The config puts the first semantic token at {config.semantic_start_id}, "
            f"the tokenizer at {tokenizer.semantic_start_id}; the files do not belong together."
        )
    with torch.device("meta"):
        slow, fast = SlowAR(config, tokenizer.end_id), FastAR(config)
    problems = Problems()
    problems.unknown(parts.unknown)
    place(slow, parts.slow, problems, dtype=dtype, device=device, settle=_quantizer(precision, "slow"))
    place(fast, parts.fast, problems, dtype=dtype, device=device, settle=_quantizer(precision, "fast"))
    problems.raise_if_any(folder)
    return DualAR(config, tokenizer, slow.eval(), fast.eval())


Settle = Callable[[nn.Module], None]


def _quantizer(precision: Precision | None, stack: Stack) -> Settle | None:
    return None if precision is None else partial(quantize, precision=precision, stack=stack)


Tensors = dict[str, Callable[[], Tensor]]


@dataclass(frozen=True)
class Parts:
    """The tensors of a release by whose they are, each read only when called."""

    slow: Tensors
    fast: Tensors
    unknown: list[str]


def split_omni(tensors: Tensors) -> Parts:
    """S2-Pro's names. The codebook table sits with the Fast AR in the file and belongs to the Slow AR."""
    parts = Parts({}, {}, [])
    for name, read in tensors.items():
        if name.startswith("text_model.model."):
            parts.slow[name.removeprefix("text_model.model.")] = read
        elif name.startswith("audio_decoder.codebook_embeddings."):
            parts.slow[name.removeprefix("audio_decoder.")] = read
        elif name.startswith("audio_decoder."):
            parts.fast[name.removeprefix("audio_decoder.")] = read
        else:
            parts.unknown.append(name)
    return parts


_SAVED_BUFFERS = ("freqs_cis", "fast_freqs_cis", "causal_mask")


def split_flat(tensors: Tensors) -> Parts:
    """S1-mini's names, with or without a leading `model.`; saved buffers are passed over."""
    parts = Parts({}, {}, [])
    for full, read in tensors.items():
        name = full.removeprefix("model.")
        if name in _SAVED_BUFFERS:
            continue
        if name.startswith("fast_project_in."):
            parts.fast[name] = read
        elif name.startswith("fast_"):
            parts.fast[name.removeprefix("fast_")] = read
        else:
            parts.slow[name] = read
    return parts


def _safetensors(folder: Path) -> Tensors:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = dict(read_json(index).get("weight_map", {}))
    else:
        shards = dict.fromkeys(_names(folder / "model.safetensors"), "model.safetensors")
    missing = sorted({name for name in shards.values() if not (folder / name).exists()})
    if missing:
        raise ReleaseIncomplete(f"{folder} lacks {', '.join(missing)}; finish the download and start again.")
    opened = {name: _open(folder / name) for name in sorted(set(shards.values()))}
    for name, shard in shards.items():
        if name not in opened[shard].keys():  # noqa: SIM118  (safe_open is no mapping)
            raise InvalidCheckpoint(f"{folder / shard} lacks {name}, which the index says it has.")

    def reader(name: str) -> Callable[[], Tensor]:
        return lambda: opened[shards[name]].get_tensor(name)

    extra = {name for shard in opened.values() for name in shard.keys()} - set(shards)  # noqa: SIM118
    if extra:
        raise InvalidCheckpoint(f"{folder} has tensors that its index does not name: {_listed(sorted(extra))}.")
    return {name: reader(name) for name in shards}


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except FileNotFoundError:
        raise ReleaseIncomplete(f"{path.parent} has no {path.name}; it is not a whole model release.") from None
    except (SafetensorError, OSError) as error:
        raise ReleaseIncomplete(f"{path} is cut short or damaged ({error}); download it again.") from error


def _names(path: Path) -> list[str]:
    return list(_open(path).keys())


def _pickled(path: Path) -> Tensors:
    """A `.pth` state dict, mapped rather than read; only plain tensors are ever unpickled."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except FileNotFoundError:
        raise ReleaseIncomplete(f"{path.parent} has no {path.name}; it is not a whole model release.") from None
    except Exception as error:  # torch raises RuntimeError, UnpicklingError, EOFError, … by what is broken
        raise ReleaseIncomplete(
            f"{path} is cut short, damaged or not a plain state dict; download it again."
        ) from error
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]

    def reader(tensor: Tensor) -> Callable[[], Tensor]:
        return lambda: tensor

    return {name: reader(tensor) for name, tensor in loaded.items()}


class Problems:
    """Everything wrong with a checkpoint, told at once."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._said)

    def unknown(self, names: list[str]) -> None:
        if names:
            self._said.append(f"unexpected {_listed(sorted(names))}")

    def missing(self, names: list[str]) -> None:
        if names:
            self._said.append(f"missing {_listed(sorted(names))}")

    def misshapen(self, name: str, is_: tuple[int, ...], should: tuple[int, ...]) -> None:
        self._said.append(f"{name} is {list(is_)} instead of {list(should)}")

    def raise_if_any(self, folder: Path) -> None:
        if self._said:
            raise InvalidCheckpoint(f"The weights in {folder} do not fit their config: {'; '.join(self._said)}.")


def place(
    module: nn.Module,
    tensors: Tensors,
    problems: Problems,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    settle: Settle | None = None,
) -> None:
    """Give a module that was built on the meta device its weights, each read, cast and moved in one go.

    `settle` is called with every block once its weights are there and before the next one's are; not any more when
    there are problems.
    """
    wanted = {name: tuple(p.shape) for name, p in module.named_parameters()}
    tensors = fuse_attention(tensors)
    problems.unknown([name for name in tensors if name not in wanted])
    problems.missing([name for name in wanted if name not in tensors])
    for block, names in _by_block(name for name in wanted if name in tensors).items():
        shapes = {name: wanted[name] for name in names}
        state = _read(tensors, shapes, problems, dtype, device)
        with suppress(RuntimeError):  # what does not fit has been told to `problems`
            module.load_state_dict(state, strict=False, assign=True)
        del state  # or `settle` would free nothing
        if settle is not None and block and not problems:
            settle(module.get_submodule(block))
    for owner in module.modules():
        for name, buffer in list(owner.named_buffers(recurse=False)):
            setattr(owner, name, buffer.to(device))
    module.requires_grad_(False)


def _read(
    tensors: Tensors,
    shapes: dict[str, tuple[int, ...]],
    problems: Problems,
    dtype: torch.dtype,
    device: torch.device | str,
) -> dict[str, Tensor]:
    """The tensors of these names, without those of another shape, which are told to `problems`."""
    state = {}
    for name, shape in shapes.items():
        tensor = tensors[name]()
        if tuple(tensor.shape) != shape:
            problems.misshapen(name, tuple(tensor.shape), shape)
        else:
            state[name] = tensor.to(device=device, dtype=dtype)
    return state


_BLOCK = re.compile(r"layers\.\d+(?=\.)")


def _by_block(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of parameters under the names of the blocks that they belong to, "" for those that belong to none."""
    found: dict[str, list[str]] = {}
    for name in names:
        block = _BLOCK.match(name)
        found.setdefault(block[0] if block else "", []).append(name)
    return found


def fuse_attention(tensors: Tensors) -> Tensors:
    """`wq`, `wk`, `wv` of a checkpoint that keeps them apart become one `wqkv`, rows in that order."""
    fused = dict(tensors)
    for name in list(tensors):
        if ".wq." not in name:
            continue
        keys = [name.replace(".wq.", part) for part in (".wq.", ".wk.", ".wv.")]
        if all(key in tensors for key in keys):
            readers = [fused.pop(key) for key in keys]
            fused[name.replace(".wq.", ".wqkv.")] = partial(_joined, readers)
    return fused


def _joined(readers: list[Callable[[], Tensor]]) -> Tensor:
    return torch.cat([read() for read in readers])


def _listed(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
