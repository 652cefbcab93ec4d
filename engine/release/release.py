"""Finding a model release, reading it strictly, and placing its weights.

Two layouts are read: `fish_qwen3_omni` (S2-Pro: sharded safetensors) and `dual_ar` (S1-mini: one `model.pth`). Modules
are built without memory (meta device); each tensor goes from the mapped file to its final dtype and device at once.
"""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.config import (
    MAX_VOCABULARY,
    DualARConfig,
    check_flag,
    check_number,
    check_text,
    check_whole,
    parse_dual_ar,
    parse_omni,
    shown,
)
from engine.errors import (
    InvalidCheckpoint,
    InvalidConfig,
    ReleaseForbidden,
    ReleaseIncomplete,
    ReleaseNotFound,
)
from engine.files.bounded import read_object
from engine.files.tensors import MAX_TENSORS, open_tensors
from engine.models.fast_ar import FastAR
from engine.models.quantization import Precision, Stack, check, quantize
from engine.models.sampling import SamplingOptions
from engine.models.slow_ar import SlowAR
from engine.text.tokenizer import Tokenizer

BUNDLED = Path(__file__).resolve().parents[2] / "assets" / "bundled"
Progress = Callable[[str, float], None]

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = [
    "*.json",
    "*.safetensors",
    "*.pth",
    "tokenizer.tiktoken",
    "lexicon.json.gz",
]
_MOST_PROBLEMS = 10  # that are told at once
_SHARD_NAME = re.compile(r"[\w][\w.-]*\.safetensors")  # of a file in the same folder
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
        values = read_object(path)
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise InvalidConfig(f"reprise.json has settings that Reprise does not know: {_listed(unknown)}.")
        return cls(**values)

    def __post_init__(self) -> None:
        check_whole("reprise.json", "max_segment_bytes", self.max_segment_bytes, 8, 100_000)
        check_whole("reprise.json", "context_positions", self.context_positions, 0, 1 << 20)
        check_flag("reprise.json", "style_tags", self.style_tags)
        if self.temperature != 0:
            check_number("reprise.json", "temperature", self.temperature, 0, 2)
        check_text("reprise.json", "notice", self.notice, 2_000)


@dataclass(frozen=True)
class DualAR:
    """A loaded release without its codec."""

    config: DualARConfig
    tokenizer: Tokenizer
    slow: SlowAR
    fast: FastAR


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
    return _read_both(folder)[0]


def _read_both(folder: Path) -> tuple[DualARConfig, Tokenizer]:
    raw = read_object(folder / "config.json")
    tokenizer = Tokenizer.load(folder)
    config = _config(raw, tokenizer)
    if tokenizer.size > config.slow.vocab_size:
        raise InvalidCheckpoint(
            f"The tokenizer has tokens up to {tokenizer.size - 1}, the model's vocabulary ends at "
            f"{config.slow.vocab_size - 1}; the files do not belong together."
        )
    if config.semantic_start_id != tokenizer.semantic_start_id:
        raise InvalidCheckpoint(
            f"The config puts the first semantic token at {config.semantic_start_id}, "
            f"the tokenizer at {tokenizer.semantic_start_id}; the files do not belong together."
        )
    return config, tokenizer


def _config(raw: dict[str, Any], tokenizer: Tokenizer) -> DualARConfig:
    kind = raw.get("model_type")
    if kind == "fish_qwen3_omni":
        return parse_omni(raw)
    if kind == "dual_ar":
        check_whole("The model's config.json", "codebook_size", raw.get("codebook_size"), 2, MAX_VOCABULARY)
        return parse_dual_ar(raw, tokenizer.semantic_start_id, tokenizer.semantic_end_id(raw["codebook_size"]))
    raise InvalidConfig(
        f"The model's config.json says model_type {shown(kind)}; Reprise reads fish_qwen3_omni (S2) and dual_ar (S1)."
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
    config, tokenizer = _read_both(folder)
    # S1-mini's layout is one pickle of flat names.
    flat = read_object(folder / "config.json")["model_type"] == "dual_ar"
    parts = split_flat(_tensors(folder / "model.pth")) if flat else split_omni(_safetensors(folder))
    with torch.device("meta"):
        slow, fast = SlowAR(config, tokenizer.end_id), FastAR(config)
    problems = Problems()
    problems.unknown(parts.unknown)
    place(slow, parts.slow, problems, dtype=dtype, device=device, settle=_quantizer(precision, "slow"))
    place(fast, parts.fast, problems, dtype=dtype, device=device, settle=_quantizer(precision, "fast"))
    problems.raise_if_any()
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
    if not (folder / "model.safetensors.index.json").exists():
        return _tensors(folder / "model.safetensors")
    shards = _index(folder)
    missing = sorted({name for name in shards.values() if not (folder / name).exists()})
    if missing:
        raise ReleaseIncomplete(f"The model's folder lacks {_listed(missing)}; finish the download and start again.")
    opened = {name: open_tensors(folder / name) for name in sorted(set(shards.values()))}
    for name, shard in shards.items():
        if name not in opened[shard].shapes:
            raise InvalidCheckpoint(f"{shard} lacks {name}, which the index says it has.")
    extra = {name for shard in opened.values() for name in shard.shapes} - set(shards)
    if extra:
        raise InvalidCheckpoint(f"The model's folder has tensors that the index lacks: {_listed(sorted(extra))}.")
    return {name: partial(opened[shard].read, name) for name, shard in shards.items()}


def _index(folder: Path) -> dict[str, str]:
    """Which file has which tensor. Only names of files in the folder itself are taken."""
    shards = read_object(folder / "model.safetensors.index.json").get("weight_map")
    if not isinstance(shards, dict) or not 1 <= len(shards) <= MAX_TENSORS:
        raise InvalidConfig("The model's index has no weight_map that says where each tensor is; download it again.")
    for name in shards.values():
        if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
            raise InvalidConfig(f"The model's index names {shown(name)}, which is no file of tensors in its folder.")
    return shards


def _tensors(path: Path) -> Tensors:
    file = open_tensors(path)
    return {name: partial(file.read, name) for name in file.shapes}


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
        if len(self._said) < _MOST_PROBLEMS:
            self._said.append(f"{name[:200]} is {list(is_)[:8]} instead of {list(should)}")

    def raise_if_any(self) -> None:
        if self._said:
            raise InvalidCheckpoint(f"The model's weights do not fit its config: {'; '.join(self._said)}.")


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
    return ", ".join(name[:200] for name in names[:most]) + (
        f" and {len(names) - most} more" if len(names) > most else ""
    )
