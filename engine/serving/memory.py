"""Memory plan: whether a release fits on a device, and how large its KV cache may be, before loading it.

Weights are counted from modules on the meta device and are exact. Before loading, the workspace is an estimate:
activations are computed from the sizes, and an allowance is made for libraries and captured graphs. Once loaded,
`warm_up` measures it.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn

from engine.errors import DoesNotFit, InvalidOption
from engine.families.family import Architecture
from engine.models import int8_linear
from engine.models.int8_linear import Int8Linear
from engine.models.quantization import QUANTIZED, Precision, StackName, layouts
from engine.serving.batch_decoder import ROWS_PER_SLOT, activation_bytes, decoding_bytes
from engine.serving.clips.clip_encoder import ENCODE_SECONDS
from engine.serving.device import available_memory
from engine.serving.host import free_host_memory
from engine.serving.runner.slots import GPU_PREFILL_CHUNK

SHORTEST = 2048  # positions: a clip of half a minute and a minute of speech
_STEP = 256  # positions: cache lengths between the shortest and the requested are multiples of it

# Scratch memory of libraries, and fragmentation of the allocator and of the graphs' pools.
_ALLOWANCE = 256 * 2**20
# Maximum bytes of the prefix cache, on the device and in host memory.
_PREFIX_BYTES, _HOST_PREFIX_BYTES = 512 << 20, 2 << 30

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
    """Bytes of each part of an engine, with `slots` slots of `positions` positions each."""

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
def is_small(architecture: Architecture) -> bool:
    """Return whether the speech model's weights roughly fit a CPU's caches and its products are too small to split
    between cores."""
    with torch.device("meta"):
        stacks = architecture.stacks()
    return sum(weight.numel() for stack in stacks for weight in stack.parameters()) < 100_000_000


def choose_precision(device: torch.device | str, architecture: Architecture) -> Precision:
    """Return the default precision of a speech model on a device.

    bf16 on GPUs that compute in it; on others fp16, or fp32 for a model that does not fit fp16. On a CPU fp32 for a
    small model and int8 for a large one, since reading the weights takes most of the time of a frame there.
    """
    device = torch.device(device)
    if device.type == "cuda":
        if _computes_in_bf16(device):
            return "bf16"
        return "fp16" if architecture.fits_fp16 else "fp32"
    return "fp32" if is_small(architecture) or not int8_linear.is_available() else "int8"


def activation_dtype(precision: Precision, device: torch.device | str) -> torch.dtype:
    """Return the dtype of activations, embeddings, norms and heads. For quantized weights it is bf16 on GPUs, or fp16
    on those without bf16, and fp32 on CPUs with int8 products, bf16 on others."""
    device = torch.device(device)
    if precision not in QUANTIZED:
        return _FLOATS[precision]
    if device.type == "cuda":
        return torch.bfloat16 if _computes_in_bf16(device) else torch.float16
    return torch.float32 if int8_linear.is_available() else torch.bfloat16


def _usual_activations(precision: Precision) -> torch.dtype:
    """Return `activation_dtype` of current GPUs."""
    return _FLOATS.get(precision, torch.bfloat16)


def _computes_in_bf16(device: torch.device) -> bool:
    with torch.cuda.device(device):
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    return native and torch.cuda.get_device_capability(device) >= (8, 0)


def plan_memory(
    architecture: Architecture,
    precision: Precision,
    *,
    available: int | None,
    slots: int,
    positions: int,
    activations: torch.dtype | None = None,
    measured: int | None = None,
    refuses: bool = True,
) -> MemoryPlan:
    """Plan `slots` slots of `positions` positions (at most the model's own), or as many as fit `available` bytes.

    If they do not fit, the number of slots is reduced first, down to one, then the positions, down to 2,048 or the
    requested number if that is smaller. `available` None: no limit. `activations`: see `activation_dtype`; by default
    that of current GPUs. `measured`: peak bytes of frames, prompts and decoding together, as `warm_up` returns them; by
    default they are estimated. `refuses`: whether to raise DoesNotFit when even the smallest plan exceeds `available`;
    False on a CPU, where the system can swap.

    Raises InvalidOption for less than one slot or position, and DoesNotFit when even the smallest plan is too large.
    """
    if slots < 1 or positions < 1:
        raise InvalidOption("option.slots_and_positions", slots=slots, positions=positions)
    size = _sizes(architecture, precision, activations or _usual_activations(precision))
    positions = min(positions, architecture.config.slow.max_seq_len)
    if available is None:
        return size.plan(slots, positions, measured)
    # The number of plans that fit, of those with one slot, two slots and so on.
    count = bisect_right(range(1, slots + 1), available, key=lambda each: size.plan(each, positions, measured).total)
    if count:
        return size.plan(count, positions, measured)
    least = size.plan(1, min(positions, SHORTEST), measured)
    if least.total > available and refuses:
        raise _refusal(size, least, available)
    room = (available - (least.total - least.kv)) // least.kv_per_position
    return size.plan(1, max(least.positions, min(positions, room // _STEP * _STEP)), measured)


def prefix_bytes(device: torch.device, plan: MemoryPlan, loaded: int) -> int:
    """Return the device bytes for the prefix cache: half of what the plan leaves. loaded: bytes already allocated."""
    available = available_memory(device)
    return _PREFIX_BYTES if available is None else max(0, min(_PREFIX_BYTES, (available + loaded - plan.total) // 2))


def host_prefix_bytes() -> int:
    """Return the host bytes for prefixes that the device has no room for: half of what is free."""
    free = free_host_memory()
    return _HOST_PREFIX_BYTES if free is None else min(_HOST_PREFIX_BYTES, free // 2)


def held_bytes(module: nn.Module) -> int:
    """Return the bytes that a module's parameters and buffers occupy. `nbytes` would be wrong for quantized tensors: it
    is the size of the dequantized values."""
    packed = sum(each.nbytes for each in module.modules() if isinstance(each, Int8Linear))
    return packed + sum(_held(tensor) for tensor in (*module.parameters(), *module.buffers()))


def _held(tensor: torch.Tensor) -> int:
    flatten = getattr(tensor, "__tensor_flatten__", None)  # PyTorch's protocol for tensor subclasses that wrap others
    return tensor.nbytes if flatten is None else sum(_held(getattr(tensor, name)) for name in flatten()[0])


class _Sizes:
    """Bytes of a release's parts in one precision."""

    def __init__(self, architecture: Architecture, precision: Precision, activations: torch.dtype) -> None:
        self.architecture, self.precision, self.activations = architecture, precision, activations
        self.config, self.codec = architecture.config, architecture.codec
        with torch.device("meta"):
            slow, fast = architecture.stacks()
            encoder, decoder = (view.float() for view in architecture.views())
            self._stream = decoder.init_state(1).nbytes()
        self._weights = {
            "slow": self._stack(slow, "slow"),
            "fast": self._stack(fast, "fast"),
            "encoder": held_bytes(encoder),
            "decoder": held_bytes(decoder),
        }
        self._largest = max(weight.numel() for weight in (*slow.layers.parameters(), *fast.layers.parameters()))

    def plan(self, slots: int, positions: int, measured: int | None = None) -> MemoryPlan:
        slow = self.config.slow
        kv = slow.n_layer * 2 * slow.n_local_heads * slow.head_dim * self.activations.itemsize
        return MemoryPlan(
            **self._weights,
            kv_per_position=kv,
            slots=slots,
            positions=positions,
            workspace=self._workspace(slots, measured),
        )

    def of(self, precision: Precision) -> "_Sizes":
        """The same release in another precision."""
        changed = _usual_activations(precision) if self.activations == torch.float32 else self.activations
        return _sizes(self.architecture, precision, changed)

    def _stack(self, module: nn.Module, stack: StackName) -> int:
        kept = layouts(module, self.precision, stack=stack, activations=self.activations)
        weights = sum(
            kept[name].nbytes(*weight.shape) if name in kept else weight.numel() * self.activations.itemsize
            for name, weight in module.named_parameters()
        )
        return weights + sum(buffer.nbytes for buffer in module.buffers())

    def _workspace(self, slots: int, measured: int | None) -> int:
        if measured is None:
            measured = self._widened() + self._prefill() + decoding_bytes(self.codec, self._stream, slots)
        states = (ROWS_PER_SLOT * slots + 1) * self._stream  # a row for padding
        return _ALLOWANCE + self._encoding() + states + measured

    def _widened(self) -> int:
        """Return the bytes of the largest weight, widened for a product. Weights are widened singly, fp8 via fp32."""
        return {"int8": 2, "int4": 2, "fp8": 6}.get(self.precision, 0) * self._largest

    def _prefill(self) -> int:
        """Return the bytes of a prefill chunk in a transformer block: the residual and the widest activations."""
        slow = self.config.slow
        attention = 2 * (slow.n_head + 2 * slow.n_local_heads) * slow.head_dim
        return (
            GPU_PREFILL_CHUNK * (4 * slow.dim + max(3 * slow.intermediate_size, attention)) * self.activations.itemsize
        )

    def _encoding(self) -> int:
        codec = self.codec
        return round(ENCODE_SECONDS * codec.frame_rate) * activation_bytes(codec.encoder_activation_size)


@lru_cache(maxsize=16)
def _sizes(architecture: Architecture, precision: Precision, activations: torch.dtype) -> _Sizes:
    return _Sizes(architecture, precision, activations)


def _refusal(size: _Sizes, least: MemoryPlan, available: int) -> DoesNotFit:
    needed, free = _gigabytes(least.total), _gigabytes(available)
    for other in _SMALLER[size.precision]:
        if other == "int4" and size.activations == torch.float16:
            continue
        less = size.of(other).plan(1, least.positions).total
        if less <= available:
            return DoesNotFit(
                "release.fits_smaller",
                needed=needed,
                precision=size.precision,
                free=free,
                smaller=other,
                less=_gigabytes(less),
            )
    return DoesNotFit("release.does_not_fit", needed=needed, precision=size.precision, free=free)


def _gigabytes(count: int) -> float:
    return round(count / 1e9, 2)
