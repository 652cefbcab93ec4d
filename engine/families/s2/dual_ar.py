"""The two transformers and the tokenizer of an S2 or S1 release.

Two layouts are supported: `fish_qwen3_omni` (S2-Pro: sharded safetensors) and `dual_ar` (S1-mini: one `model.pth` with
flat names).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.checks import MAX_VOCABULARY, check_int, shown
from engine.errors import InvalidCheckpoint, InvalidConfig
from engine.families.s2.config import DualARConfig, parse_dual_ar, parse_omni
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.slow_ar import SlowAR
from engine.files.bounded import read_object
from engine.models.quantization import Precision, StackName, check_precision, quantize_block
from engine.release.weights import (
    Mismatch,
    StoredTensor,
    StoredTensors,
    compare,
    load_weights,
    open_file,
    open_safetensors,
    refuse_mismatches,
    shapes_of,
)
from engine.text.tokenizer import Tokenizer

_EMBEDDINGS, _OUTPUT = "embeddings.weight", "output.weight"
_HOST = torch.device("cpu")
_SAVED_BUFFERS = ("freqs_cis", "fast_freqs_cis", "causal_mask")  # of S1-mini; ignored: these tables are computed
_AUDIO_INPUT = "audio_"  # in names of S1-mini's tensors for features of audio, which speaking does not use


@dataclass(frozen=True)
class ReleaseHeader:
    """Sizes and tokenizer of a release, known before its weights are read.

    flat: whether the weights and the prompt have S1-mini's layout.
    """

    config: DualARConfig
    tokenizer: Tokenizer
    flat: bool


@dataclass(frozen=True)
class DualAR:
    """A loaded release without its codec."""

    config: DualARConfig
    tokenizer: Tokenizer
    slow: SlowAR
    fast: FastAR


def read_header(folder: Path) -> ReleaseHeader:
    """Read the sizes and the tokenizer of the release in `folder`. Raises as `load_dual_ar` does."""
    raw = read_object(folder / "config.json")
    tokenizer = Tokenizer.load(folder)
    config = _parse_config(raw, tokenizer)
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
    return ReleaseHeader(config, tokenizer, flat=raw["model_type"] == "dual_ar")


def read_config(folder: Path) -> DualARConfig:
    """Read the sizes of the release in `folder`. Raises as `load_dual_ar` does."""
    return read_header(folder).config


def _parse_config(raw: dict[str, Any], tokenizer: Tokenizer) -> DualARConfig:
    kind = raw.get("model_type")
    if kind == "fish_qwen3_omni":
        return parse_omni(raw)
    if kind == "dual_ar":
        check_int("The model's config.json", "codebook_size", raw.get("codebook_size"), 2, MAX_VOCABULARY)
        return parse_dual_ar(raw, tokenizer.semantic_start_id, tokenizer.semantic_end_id(raw["codebook_size"]))
    raise InvalidConfig(
        f"The model's config.json says model_type {shown(kind)}; Reprise reads fish_qwen3_omni (S2) and dual_ar (S1)."
    )


def load_dual_ar(
    folder: Path,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    precision: Precision | None = None,
    header: ReleaseHeader | None = None,
    host_rows: int = 0,
) -> DualAR:
    """Load both transformers of the release in `folder`, in `dtype` on `device`.

    With `precision` int8, int4 or fp8, weights are quantized one block at a time while loading, so that the device
    never holds all of them in `dtype`. Other precisions have no effect.

    Args:
        header: the header of the same folder, if it has been read already.
        host_rows: as in `SlowAR`.

    Raises InvalidConfig, InvalidCheckpoint or ReleaseIncomplete, naming all problems. Raises DeviceUnavailable or
    InvalidOption, before reading anything, for a precision that is not available here.
    """
    if precision is not None:
        check_precision(precision, device, dtype)
    header = header or read_header(folder)
    parts = split_flat(open_file(folder / "model.pth")) if header.flat else split_omni(open_safetensors(folder))
    with torch.device("meta"):
        slow, fast = SlowAR(header.config, header.tokenizer.end_id), FastAR(header.config)
    stacks: tuple[tuple[StackName, SlowAR | FastAR, StoredTensors], ...] = (
        ("slow", slow, fuse_attention(parts.slow)),
        ("fast", fast, fuse_attention(parts.fast)),
    )
    found = [Mismatch(unexpected=parts.unknown)]
    found += [compare(tensors, shapes_of(module)) for _, module, tensors in stacks]
    refuse_mismatches("The model's weights do not fit its config", found)
    if host_rows:
        with torch.device("meta"):
            slow = SlowAR(header.config, header.tokenizer.end_id, host_rows)
        slow.host_embeddings = parts.slow[_EMBEDDINGS].read(_HOST)[:host_rows].to(dtype, copy=True)
        stacks = (("slow", slow, _without_rows(stacks[0][2], host_rows)), stacks[1])
    for stack, module, tensors in stacks:
        load_weights(module, tensors, dtype=dtype, device=device, after_block=_quantizer(precision, stack))
    return DualAR(header.config, header.tokenizer, slow.eval(), fast.eval())


def _without_rows(tensors: StoredTensors, count: int) -> StoredTensors:
    """Return the tensors without the first `count` rows of the embedding table and of the head."""

    def without(stored: StoredTensor) -> StoredTensor:
        def read(device: torch.device) -> Tensor:
            values = stored.read(device)
            rest = values[count:]
            # The rest of a mapped file takes no memory; that of values that were made on the device would.
            return rest if values.device == _HOST else rest.clone()

        return replace(stored, shape=(stored.shape[0] - count, *stored.shape[1:]), read=read)

    return tensors | {name: without(tensors[name]) for name in (_EMBEDDINGS, _OUTPUT) if name in tensors}


def _quantizer(precision: Precision | None, stack: StackName) -> Callable[[nn.Module], None] | None:
    return None if precision is None else partial(quantize_block, precision=precision, stack=stack)


@dataclass(frozen=True)
class SplitTensors:
    """The tensors of a release by transformer, and the names of tensors that belong to neither."""

    slow: StoredTensors
    fast: StoredTensors
    unknown: list[str]

    def add(self, stack: StackName, name: str, stored: StoredTensor) -> None:
        tensors = self.slow if stack == "slow" else self.fast
        tensors[name] = replace(stored, name=name)


def split_omni(tensors: StoredTensors) -> SplitTensors:
    """Split S2-Pro's tensors. The codebook table is stored with the Fast AR but belongs to the Slow AR.

    The projection into the Fast AR is `fast_project_in` in the bundled release and `project_in` in S2-Pro.
    """
    parts = SplitTensors({}, {}, [])
    for name, stored in tensors.items():
        if name.startswith("text_model.model."):
            parts.add("slow", name.removeprefix("text_model.model."), stored)
        elif name.startswith("audio_decoder.codebook_embeddings."):
            parts.add("slow", name.removeprefix("audio_decoder."), stored)
        elif name.startswith("audio_decoder.project_in."):
            parts.add("fast", "fast_" + name.removeprefix("audio_decoder."), stored)
        elif name.startswith("audio_decoder."):
            parts.add("fast", name.removeprefix("audio_decoder."), stored)
        else:
            parts.unknown.append(name)
    return parts


def split_flat(tensors: StoredTensors) -> SplitTensors:
    """Split S1-mini's tensors, whose names may begin with `model.`. Saved buffers and the audio input are skipped."""
    parts = SplitTensors({}, {}, [])
    for full, stored in tensors.items():
        name = full.removeprefix("model.")
        if name in _SAVED_BUFFERS or _AUDIO_INPUT in name:
            continue
        if name.startswith("fast_project_in."):
            parts.add("fast", name, stored)
        elif name.startswith("fast_"):
            parts.add("fast", name.removeprefix("fast_"), stored)
        else:
            parts.add("slow", name, stored)
    return parts


def fuse_attention(tensors: StoredTensors) -> StoredTensors:
    """Concatenate separately stored `wq`, `wk` and `wv` into one `wqkv`, rows in that order."""
    fused = dict(tensors)
    for name in tensors:
        if ".wq." not in name:
            continue
        keys = [name.replace(".wq.", part) for part in (".wq.", ".wk.", ".wv.")]
        parts = [tensors[key] for key in keys if key in tensors]
        if len(parts) == 3 and len({part.shape[1:] for part in parts}) == 1 and all(part.shape for part in parts):
            for key in keys:
                del fused[key]
            whole = name.replace(".wq.", ".wqkv.")
            fused[whole] = replace(StoredTensor.joined(parts), name=whole)
    return fused
