"""Runs the blocks of a stack for single positions, and draws from logits, in native code.

`use_native_steps` gives a stack a `NativeStepBackend` after checking it against the plain run on the stack's own
weights, and `use_native_sampling` does the same for draws. Without a C compiler, or if they differ, the plain versions
stay in use.
"""

import ctypes
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from engine.layers import FeedForward
from engine.models.agreement import TOLERANCE, describe_sampling_difference, step_difference
from engine.models.int8_linear import Int8Linear
from engine.models.kv_cache import KVCache, KVView, SlotRowsView, UnpaddedRowsView
from engine.models.native.build import NoNativeCode, library
from engine.models.sampling import RowOptions, SamplingBackend, gumbel_noise
from engine.models.stacks import SlowStack
from engine.models.transformer import Transformer, TransformerBlock

# Stacks with more bytes of weights in fp32 run faster on several threads, which this run does not use.
MAX_BYTES = 256 << 20


class _Layer(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in (
            *("wqkv", "wo", "w13", "w2"),
            *("attention_norm", "ffn_norm", "q_norm", "k_norm", "qkv_bias", "o_bias"),
        )
    ]


class _Stack(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("layers", "dim", "heads", "kv_heads", "width", "hidden", "half")),
        ("eps", ctypes.c_double),
        ("rope", ctypes.c_void_p),
        ("layer", ctypes.POINTER(_Layer)),
    ]


class NativeStepBackend:
    """The blocks of one fp32 stack, run for single positions, several of a slot in order.

    Matrices are stored in fp16 if that holds their values exactly, so that a step reads half the bytes.

    nbytes: of the weights that a step reads.
    """

    def __init__(self, stack: Transformer) -> None:
        """stack: as loaded, before `Transformer.prepare_for_decoding`. Raises NoNativeCode."""
        code, config = library(), stack.config
        blocks = [cast(TransformerBlock, block) for block in stack.layers]
        half = bool(code.reprise_has_half()) and all(map(_is_half, _matrices(blocks)))
        self._kept: list[Tensor] = []  # what the structures point to
        layers = (_Layer * len(blocks))(*(self._layer(block, half) for block in blocks))
        self.nbytes = sum(weight.nbytes for weight in self._kept)
        self._stack = _Stack(
            len(blocks), config.dim, config.n_head, config.n_local_heads, config.head_dim, config.intermediate_size,
            half, config.norm_eps, self._address(torch.view_as_real(stack.rope)), layers,
        )  # fmt: skip
        # A tensor rather than a number, which would be a constant of a trace.
        self._stack_address = torch.tensor([ctypes.addressof(self._stack)])

    def accepts(self, view: KVView) -> bool:
        return isinstance(view, SlotRowsView)

    def __call__(self, x: Tensor, view: SlotRowsView) -> Tensor:
        """Run x `[B, T, D]` → `[B, T, D]`, as `Transformer.run` does."""
        batch, new, dim = x.shape
        cache, slots, positions = view.slot_rows(int(new))
        rows = x.transpose(0, 1).reshape(-1, dim)
        out: Tensor = torch.ops.reprise.run_rows(rows, cache, slots, positions, self._stack_address)
        return out.view(new, batch, dim).transpose(0, 1)

    def _layer(self, block: TransformerBlock, half: bool) -> _Layer:
        attention, feed = block.attention, block.feed_forward
        dtype = torch.float16 if half else torch.float32
        matrices = (attention.wqkv.weight, attention.wo.weight, _gate_weight(feed), feed.w2.weight)
        norms = (block.attention_norm, block.ffn_norm, attention.q_norm, attention.k_norm)
        scales = (None if norm is None else norm.weight for norm in norms)
        vectors = (*scales, attention.wqkv.bias, attention.wo.bias)
        addresses = [self._address(matrix.to(dtype)) for matrix in matrices]
        return _Layer(*addresses, *(None if vector is None else self._address(vector) for vector in vectors))

    def _address(self, tensor: Tensor) -> int:
        self._kept.append(tensor.detach().clone(memory_format=torch.contiguous_format))
        return self._kept[-1].data_ptr()


def use_native_steps(stack: Transformer) -> str | None:
    """Let a stack run single positions in native code, if it agrees with the plain run.

    Call it before `Transformer.prepare_for_decoding`. Returns: a phrase that says why it does not, or None.
    """
    if not _is_plain(stack) or sum(weight.nbytes for weight in stack.layers.parameters()) > MAX_BYTES:
        return None
    try:
        native = NativeStepBackend(stack)
    except NoNativeCode as error:
        return f"native code: {error}"
    difference = step_difference(stack, native, _rows_view)
    if not difference <= TOLERANCE[torch.float32]:  # NaN too
        return f"native code: it differs from the plain one by {difference:.2g}"
    stack.step_backend = native
    return None


def use_native_sampling(slow: SlowStack, sizes: Sequence[int]) -> str | None:
    """Let a slow stack's rules draw in native code, if it draws the same values as the plain functions.

    sizes: numbers of values to draw from in the check. Returns: as `use_native_steps`.
    """
    if not _is_plain(slow):
        return None
    try:
        library()
    except NoNativeCode:
        return None  # `use_native_steps` has reported it
    native = SamplingBackend(gumbel_noise, draw)
    why = describe_sampling_difference(native, sizes, slow.norm.weight.device)
    if why is None:
        slow.sampling_backend = native
    return why and f"native draws: {why}"


def draw(logits: Tensor, options: RowOptions, noise: Tensor, recent: Tensor | None = None) -> Tensor:
    """Draw from logits `[B, V]` → values int64 `[B]`; of equal logits, the one with the lower index ranks first.

    noise: `[B, C]`; with `recent` `[B, W]` it is `[B, 2, C]`, and a value among the recent ones is drawn again.
    Reference implementation: `sample` and `sample_semantic` of `engine.models.sampling`.
    """
    before = options.top_k[:, :0] if recent is None else recent.contiguous()
    rows = (options.temperature, options.top_p, options.top_k)
    out: Tensor = torch.ops.reprise.draw_rows(
        logits.contiguous(), *(option.contiguous() for option in rows), noise, before
    )
    return out.squeeze(1)


def _rows_view(cache: KVCache, positions: Sequence[int]) -> UnpaddedRowsView:
    return UnpaddedRowsView(cache, range(len(positions)), positions)


def _matrices(blocks: Sequence[TransformerBlock]) -> list[Tensor]:
    return [layer.weight for block in blocks for layer in block.modules() if isinstance(layer, nn.Linear)]


def _gate_weight(feed: FeedForward) -> Tensor:
    """Return w1 and w3 stacked."""
    weights = [layer.weight for layer in feed.gates]
    return weights[0] if len(weights) == 1 else torch.cat(weights)


def _is_plain(stack: Transformer) -> bool:
    """Return whether all matrices of the blocks are fp32 on a CPU, none of them quantized."""
    layers = [layer for layer in stack.layers.modules() if isinstance(layer, nn.Linear | Int8Linear)]
    return stack.is_batch_invariant and all(isinstance(layer, nn.Linear) for layer in layers)


def _is_half(weight: Tensor) -> bool:
    return torch.equal(weight.half().float(), weight)
