"""Does a release fit on a device, and how large may its key/value cache be: arithmetic, before anything is loaded.

Weights are counted from modules without memory and are exact. The workspace is an estimate: activations are worked out
from the sizes, and an allowance is made for what libraries and recorded graphs keep.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from time import perf_counter

import torch
from torch import nn

from engine.codec.codec import CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.config import DualARConfig
from engine.errors import DoesNotFit, InvalidOption
from engine.models.fast_ar import FastAR
from engine.models.quantization import QUANTIZED, Precision, Stack, layouts
from engine.models.slow_ar import SlowAR
from engine.serving.clip_encoder import ENCODE_SECONDS
from engine.serving.codec_worker import FRAMES_AT_ONCE
from engine.serving.pacing import SIZES
from engine.serving.slots import PREFILL_CHUNK

__all__ = [
    "MemoryPlan",
    "Precision",
    "activation_dtype",
    "available_memory",
    "choose_precision",
    "held_bytes",
    "is_small",
    "plan_memory",
    "reserved_memory",
]

SHORTEST = 2048  # positions: a voice's clip of half a minute and a minute of speech
_STEP = 256  # positions: cache lengths between the shortest and the wished for

# Tensors as large as the widest that are alive together inside a convolutional stack: 6.0 were counted in S2-Pro's
# encoder and 6.4 in its decoder.
_ALIVE = 7
# The libraries' own scratch memory, the graphs' pool, and the gaps that an allocator leaves.
_ALLOWANCE = 256 * 2**20

_FLOATS: dict[Precision, torch.dtype] = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_SMALLER: dict[Precision, tuple[Precision, ...]] = {
    "fp32": ("bf16", "int8", "int4"),
    "fp16": ("int8",),
    "bf16": ("int8", "int4"),
    "int8": ("int4",),
    "fp8": ("int4",),
    "int4": (),
}


@dataclass(frozen=True)
class MemoryPlan:
    """What is kept where, in bytes; `slots` slots of `positions` positions each."""

    slow: int
    fast: int
    encoder: int
    decoder: int
    kv_per_position: int
    slots: int
    positions: int
    workspace: int

    @property
    def kv(self) -> int:
        """Bytes of the key/value cache."""
        return self.kv_per_position * self.slots * self.positions

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return self.slow + self.fast + self.encoder + self.decoder + self.kv + self.workspace


@lru_cache(maxsize=16)
def is_small(config: DualARConfig) -> bool:
    """Whether a CPU's caches hold the speech model's weights, more or less, and its products are too small to be
    shared out between cores."""
    with torch.device("meta"):
        stacks = SlowAR(config, end_id=0), FastAR(config)
    return sum(weight.numel() for stack in stacks for weight in stack.parameters()) < 100_000_000


def choose_precision(device: torch.device | str, config: DualARConfig) -> Precision:
    """The precision of a speech model that nobody chose one for.

    bf16 on GPUs that compute in it, fp16 on others. On a CPU fp32, but for a large model bf16 where that is measured
    to be faster.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return "bf16" if _computes_in_bf16(device) else "fp16"
    return "bf16" if not is_small(config) and _bf16_pays() else "fp32"


@lru_cache(maxsize=1)
def _bf16_pays() -> bool:
    """Whether this CPU multiplies a large matrix with a vector faster in bf16 than in fp32."""
    seconds = {dtype: _product_seconds(dtype) for dtype in (torch.float32, torch.bfloat16)}
    return seconds[torch.bfloat16] < 0.8 * seconds[torch.float32]


def _product_seconds(dtype: torch.dtype) -> float:
    matrix, vector = torch.ones(4096, 4096, dtype=dtype), torch.ones(1, 4096, dtype=dtype)
    times = []
    for _ in range(5):  # the first of them warm up
        began = perf_counter()
        torch.nn.functional.linear(vector, matrix)
        times.append(perf_counter() - began)
    return min(times)


def activation_dtype(precision: Precision, device: torch.device | str) -> torch.dtype:
    """What is computed in, and what embeddings, norms and heads are kept in: for quantized weights bf16, or fp16 on
    GPUs without it."""
    device = torch.device(device)
    if precision not in QUANTIZED:
        return _FLOATS[precision]
    return torch.float16 if device.type == "cuda" and not _computes_in_bf16(device) else torch.bfloat16


def _computes_in_bf16(device: torch.device) -> bool:
    with torch.cuda.device(device):
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    return native and torch.cuda.get_device_capability(device) >= (8, 0)


def available_memory(device: torch.device | str) -> int | None:
    """Bytes that can still be taken on a GPU, those that PyTorch holds unused included; None elsewhere: no limit."""
    device = torch.device(device)
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def reserved_memory(device: torch.device | str) -> int | None:
    """Bytes of a GPU that PyTorch holds for this process, used or not; None elsewhere."""
    device = torch.device(device)
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else None


def plan_memory(
    config: DualARConfig,
    codec: CodecConfig,
    precision: Precision,
    *,
    available: int | None,
    slots: int,
    positions: int,
    activations: torch.dtype | None = None,
) -> MemoryPlan:
    """`slots` slots of `positions` positions (at most the model's own), or as much of that as `available` bytes hold.

    What does not fit loses slots first, down to one, then positions, down to 2,048 or what was wished for if that is
    less. None for `available` sets no limit. `activations` is what `activation_dtype` gives; without it, what that
    gives on current GPUs.

    Raises InvalidOption for less than one slot or position, and DoesNotFit when the least of all is too much.
    """
    if slots < 1 or positions < 1:
        raise InvalidOption(f"There must be at least one slot and one position, not {slots} and {positions}.")
    size = _sizes(config, codec, precision, activations or activation_dtype(precision, "cpu"))
    positions = min(positions, config.slow.max_seq_len)
    for count in range(slots, 0, -1):
        plan = size.plan(count, positions)
        if available is None or plan.total <= available:
            return plan
    assert available is not None
    least = size.plan(1, min(positions, SHORTEST))
    if least.total > available:
        raise DoesNotFit(_refusal(size, least, available))
    room = (available - (least.total - least.kv)) // least.kv_per_position
    return size.plan(1, max(least.positions, min(positions, room // _STEP * _STEP)))


def held_bytes(module: nn.Module) -> int:
    """Bytes of a module's parameters and buffers as they are kept: a quantized tensor says how large it looks, not
    how large it is."""
    return sum(_held(tensor) for tensor in (*module.parameters(), *module.buffers()))


def _held(tensor: torch.Tensor) -> int:
    flatten = getattr(tensor, "__tensor_flatten__", None)  # PyTorch's protocol for tensors made of others
    return tensor.nbytes if flatten is None else sum(_held(getattr(tensor, name)) for name in flatten()[0])


class _Sizes:
    """The bytes of a release's parts in one precision."""

    def __init__(
        self, config: DualARConfig, codec: CodecConfig, precision: Precision, activations: torch.dtype
    ) -> None:
        self.config, self.codec, self.precision, self.activations = config, codec, precision, activations
        with torch.device("meta"):
            slow, fast = SlowAR(config, end_id=0), FastAR(config)
            encoder, decoder = CodecEncoder(codec), CodecDecoder(codec)
            self._stream = decoder.init_state(1).nbytes()
        self._weights = {
            "slow": self._stack(slow, "slow"),
            "fast": self._stack(fast, "fast"),
            "encoder": held_bytes(encoder),
            "decoder": held_bytes(decoder),
        }
        self._largest = max(weight.numel() for weight in (*slow.layers.parameters(), *fast.layers.parameters()))

    def plan(self, slots: int, positions: int) -> MemoryPlan:
        slow = self.config.slow
        kv = slow.n_layer * 2 * slow.n_local_heads * slow.head_dim * self.activations.itemsize
        return MemoryPlan(
            **self._weights, kv_per_position=kv, slots=slots, positions=positions, workspace=self._workspace(slots)
        )

    def of(self, precision: Precision) -> "_Sizes":
        """The same release in another precision."""
        changed = activation_dtype(precision, "cpu") if self.activations == torch.float32 else self.activations
        return _sizes(self.config, self.codec, precision, changed)

    def _stack(self, module: nn.Module, stack: Stack) -> int:
        kept = layouts(module, self.precision, stack=stack, activations=self.activations)
        weights = sum(
            kept[name].nbytes(*weight.shape) if name in kept else weight.numel() * self.activations.itemsize
            for name, weight in module.named_parameters()
        )
        return weights + sum(buffer.nbytes for buffer in module.buffers())

    def _workspace(self, slots: int) -> int:
        return _ALLOWANCE + self._widened() + self._prefill() + self._encoding() + self._decoding(slots)

    def _widened(self) -> int:
        """int8 and fp8 weights are widened for a product, one at a time, fp8 by way of fp32."""
        return {"int8": 2, "int4": 2, "fp8": 6}.get(self.precision, 0) * self._largest

    def _prefill(self) -> int:
        """A piece of a prompt on its way through a block: the residual, and the widest of what is beside it."""
        slow = self.config.slow
        attention = 2 * (slow.n_head + 2 * slow.n_local_heads) * slow.head_dim
        return PREFILL_CHUNK * (4 * slow.dim + max(3 * slow.intermediate_size, attention)) * self.activations.itemsize

    def _encoding(self) -> int:
        codec = self.codec
        widths = (codec.encoder_dim * 2**i for i in range(len(codec.encoder_rates)))
        lengths = (codec.frame_length // prod(codec.encoder_rates[:i]) for i in range(len(codec.encoder_rates)))
        return round(ENCODE_SECONDS * codec.frame_rate) * _widest(widths, lengths)

    def _decoding(self, slots: int) -> int:
        codec = self.codec
        rates, latents = codec.decoder_rates, codec.frame_length // codec.hop_length
        widths = (codec.decoder_dim // 2 ** (i + 1) for i in range(len(rates)))
        lengths = (latents * prod(rates[: i + 1]) for i in range(len(rates)))
        frames = min(slots * SIZES[-1], FRAMES_AT_ONCE)
        return slots * self._stream + frames * _widest(widths, lengths)


@lru_cache(maxsize=16)
def _sizes(config: DualARConfig, codec: CodecConfig, precision: Precision, activations: torch.dtype) -> _Sizes:
    return _Sizes(config, codec, precision, activations)


def _widest(widths: Iterable[int], lengths: Iterable[int]) -> int:
    """Bytes for each frame, where a stack has these channels and samples per frame."""
    return _ALIVE * 4 * max(width * length for width, length in zip(widths, lengths, strict=True))


def _refusal(size: _Sizes, least: MemoryPlan, available: int) -> str:
    says = f"The model needs {_gigabytes(least.total)} in {size.precision} and {_gigabytes(available)} are free"
    for other in _SMALLER[size.precision]:
        if other == "int4" and size.activations == torch.float16:
            continue
        needed = size.of(other).plan(1, least.positions).total
        if needed <= available:
            return f"{says}; choose {other}, which needs {_gigabytes(needed)}, or another device."
    return f"{says}; no smaller precision fits either: choose the CPU, a GPU with more memory or a smaller model."


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
