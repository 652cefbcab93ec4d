"""Fused kernels against the plain operations, in Triton's interpreter on a CPU and compiled on a GPU."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.families.s2.dual_ar import DualAR, load_dual_ar
from engine.layers import RMSNorm, SelfAttention, rotary_table
from engine.models import agreement
from engine.models import fused as module
from engine.models.frame_step import DecodeState, FrameStep
from engine.models.fused import FusedStepBackend, narrow_weight, sampling_kernels, use_fused_sampling, use_fused_steps
from engine.models.kv_cache import FrameView, GrowingView, StaticRowsView, attend
from engine.models.sampling import RowOptions, gumbel_noise, sample, sample_semantic
from engine.models.transformer import QueryKeyNorm, TransformerBlock
from tests.engine.models.triton_interpreter import DEVICE, quick_interpreter
from tests.paths import MINIATURE

pytest.importorskip("triton", reason="Triton comes with torch on Linux only")

from engine.models.kernels import attention, elementwise, products
from engine.models.kernels import sampling as kernel_sampling
from engine.models.kernels.attention import attend_new
from engine.models.kernels.elementwise import gate, rms_norm
from engine.models.kernels.products import StoredWeight, gemv, narrow_gemm

pytestmark = [pytest.mark.gpu] if DEVICE == "cuda" else []
# The interpreter has no bf16 products, and truncates to bf16 instead of rounding.
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])]
# The interpreter is slow: it runs shorter splits of the attention, and most attentions in one type.
SPLIT = attention.SPLIT if DEVICE == "cuda" else 32
WIDE = DTYPES if DEVICE == "cuda" else DTYPES[:1]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    """The interpreter runs fewer programs, which compute more outputs each."""
    with quick_interpreter(), pytest.MonkeyPatch.context() as patches:
        if DEVICE == "cpu":
            for name in ("_TILE", "_LONG_TILE", "_NARROW_TILE", "_LONG_NARROW_TILE"):
                patches.setattr(products, name, getattr(products, name)._replace(outputs=16))
        yield


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def assert_close(found: Tensor, expected: Tensor) -> None:
    tolerance = 1e-5 if expected.dtype == torch.float32 else 0.02
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 64), (3, 100), (2, 257)])
def test_norm_kernel_equals_plain_norm(rows: int, width: int, dtype: torch.dtype) -> None:
    x, norm = random(rows, width, dtype=dtype), RMSNorm(width, 1e-6).to(DEVICE, dtype)
    norm.weight.data.copy_(random(width, seed=2))
    assert_close(rms_norm(x, norm.weight, 1e-6), norm(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 96), (3, 1030)])
def test_gate_equals_silu_times_second_half(rows: int, hidden: int, dtype: torch.dtype) -> None:
    both = random(rows, 2 * hidden, dtype=dtype)
    first, second = both.chunk(2, dim=1)
    assert_close(gate(both), F.silu(first) * second)


@pytest.mark.parametrize(
    ("heads", "groups", "width", "positions", "norms", "programs", "dtype"),
    [
        *((4, 2, 16, SPLIT + 44, True, 8, dtype) for dtype in DTYPES),
        *((5, 1, 32, 11, False, 8, dtype) for dtype in DTYPES),
        *((2, 2, 20, SPLIT, True, 8, dtype) for dtype in WIDE),
        *((3, 3, 20, 40, False, 8, dtype) for dtype in WIDE),
        *((4, 2, 16, 5 * SPLIT + 3, True, 2, dtype) for dtype in WIDE),
        *((2, 1, 16, SPLIT + 44, False, 1, dtype) for dtype in DTYPES),
    ],
)
def test_attention_of_new_positions_equals_the_plain_one(
    heads: int,
    groups: int,
    width: int,
    positions: int,
    norms: bool,
    programs: int,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Positions past a row's end are NaN and must not be read; other positions and slots stay unchanged."""
    monkeypatch.setattr(attention, "SPLIT", SPLIT)
    monkeypatch.setattr(attention, "_STEP_BYTES", 64)
    monkeypatch.setattr(attention, "_PROGRAMS", programs)
    wanted = 1, 11, SPLIT, SPLIT + 1, SPLIT + 44, 2 * SPLIT + 1, 3 * SPLIT, 5 * SPLIT + 3
    lengths = [length for length in wanted if length <= positions]
    rows, last = len(lengths), torch.tensor(lengths, device=DEVICE) - 1
    projections = SelfAttention(8, heads, groups, width)
    if norms:
        projections.q_norm, projections.k_norm = (QueryKeyNorm(width, 1e-6).to(DEVICE, dtype) for _ in range(2))
        projections.q_norm.weight.data.copy_(random(width, seed=3))
        projections.k_norm.weight.data.copy_(random(width, seed=4))
    fused = random(rows, (heads + 2 * groups) * width, dtype=dtype)
    projections.wqkv = torch.nn.Identity()  # type: ignore[assignment]
    table = rotary_table(torch.arange(positions), width, 1e4).to(DEVICE)
    q, k, v = projections.project(fused[:, None], table[last][:, None, None])
    cache = random(2, rows + 1, groups, positions, width, seed=1, dtype=dtype)
    for row, length in enumerate(lengths):
        cache[:, row, :, length - 1 :] = math.nan
    expected = cache.clone()
    for row, position in enumerate(last.tolist()):
        expected[0, row, :, position], expected[1, row, :, position] = k[row, :, 0], v[row, :, 0]
    q_norm, k_norm = (None if norm is None else norm.weight for norm in (projections.q_norm, projections.k_norm))
    found = fused.new_empty(rows, heads, width)
    attend_new(fused, cache, last, last + 1, table, q_norm, k_norm, 1e-6, found)
    torch.testing.assert_close(cache, expected, rtol=1e-5, atol=0.02 if dtype.itemsize == 2 else 1e-5, equal_nan=True)
    for row, length in enumerate(lengths):
        keys, values = expected[:, row : row + 1, :, :length].unbind(0)
        assert_close(found[row : row + 1], attend(q[row : row + 1], keys, values)[:, :, 0])


def test_unused_rows_write_past_the_slots_and_read_nothing() -> None:
    """They have one position, the new one, which is at the end of the cache."""
    heads, groups, width = 4, 2, 16
    fused = random(1, (heads + 2 * groups) * width)
    cache = torch.full((2, 1, groups, 40, width), math.nan, device=DEVICE)
    table = rotary_table(torch.arange(40), width, 1e4).to(DEVICE)
    position, length = torch.tensor([39], device=DEVICE), torch.tensor([1], device=DEVICE)
    found = fused.new_empty(1, heads, width)
    attend_new(fused, cache, position, length, table, None, None, 1e-6, found)
    value = fused.view(heads + 2 * groups, width)[heads + groups :]
    assert_close(found[0], value.repeat_interleave(heads // groups, dim=0))
    assert torch.equal(cache[1, 0, :, 39], value)
    assert cache[:, :, :, :39].isnan().all()


def stored_weight(dtype: torch.dtype, outputs: int, columns: int, groups: int = 1) -> tuple[StoredWeight, Tensor]:
    """Return a random weight in `dtype`, and its values in fp64."""
    values = random(outputs, columns, seed=3)
    if dtype.itemsize > 1:
        stored = values.to(dtype) / 8
        return StoredWeight(stored), stored.double()
    narrow = (60 * values).round().clamp(-128, 127) if dtype == torch.int8 else 60 * values
    scale = random(outputs, groups, seed=1).abs() / 128
    stored = narrow.to(dtype)
    wide = stored.double().view(outputs, groups, -1) * scale.double()[..., None]
    return StoredWeight(stored, scale), wide.flatten(1)


@pytest.mark.parametrize(
    ("dtype", "rows", "outputs", "columns", "groups"),
    [
        *((torch.int8, *size, groups) for size in [(1, 16, 384), (2, 37, 96), (2, 5, 48)] for groups in (1, 3)),
        (torch.float16, 2, 37, 96, 1),
        (torch.float16, 1, 6, 2500, 1),  # more columns than are read at once
        (torch.int8, 1, 5, 5000, 1),
        # fp8 differs only in the widening of single values, which `test_stored_values_are_widened_exactly` tests.
        (torch.float8_e4m3fn, 2, 37, 96, 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("adds", [False, True])
def test_product_of_few_rows_equals_plain_product(
    dtype: torch.dtype, rows: int, outputs: int, columns: int, groups: int, adds: bool
) -> None:
    x = random(rows, columns, dtype=torch.float16)
    weight, wide = stored_weight(dtype, outputs, columns, groups)
    bias = random(outputs, seed=2, dtype=torch.float16) if groups == 1 else None
    residual = random(rows, outputs, seed=4, dtype=torch.float16) if adds else None
    expected = F.linear(x.double(), wide, None if bias is None else bias.double())
    expected = expected if residual is None else expected + residual
    found = gemv(x, weight, bias, residual=residual)
    torch.testing.assert_close(found.double(), expected, rtol=0.01, atol=0.02)
    for row in range(rows):  # bitwise equal in any batch
        alone = None if residual is None else residual[row : row + 1]
        assert torch.equal(gemv(x[row : row + 1], weight, bias, residual=alone)[0], found[row])


@pytest.mark.parametrize(
    ("dtype", "rows", "outputs", "columns", "groups"),
    [
        *((torch.int8, *size, groups)
          for size in [(3, 37, 96), (8, 5, 48), (9, 19, 192), (40, 33, 48)] for groups in (1, 3)),
        (torch.float8_e4m3fn, 3, 37, 96, 3),
        (torch.float8_e4m3fn, 9, 19, 192, 1),
    ],
)  # fmt: skip
def test_narrow_product_of_many_rows_equals_plain_product(
    dtype: torch.dtype, rows: int, outputs: int, columns: int, groups: int
) -> None:
    x = random(rows, columns, dtype=torch.float16)
    weight, wide = stored_weight(dtype, outputs, columns, groups)
    bias = random(outputs, seed=2, dtype=torch.float16) if groups == 1 else None
    residual = random(rows, outputs, seed=4, dtype=torch.float16)
    expected = F.linear(x.double(), wide, None if bias is None else bias.double())
    torch.testing.assert_close(narrow_gemm(x, weight, bias).double(), expected, rtol=0.01, atol=0.02)
    found = narrow_gemm(x, weight, bias, residual)
    torch.testing.assert_close(found.double(), expected + residual, rtol=0.01, atol=0.02)


@pytest.mark.parametrize(
    ("dtype", "rows", "outputs", "gates", "groups"),
    [
        *((torch.int8, *size, *kind)
          for size in [(1, 6), (2, 38)] for kind in [(True, 1), (True, 3), (False, 3), (False, 1)]),
        (torch.float8_e4m3fn, 2, 6, True, 1),
        (torch.float8_e4m3fn, 2, 38, False, 1),
        (torch.float16, 2, 38, True, 1),
        (torch.float16, 2, 6, False, 1),
    ],
)  # fmt: skip
def test_product_behind_a_norm_equals_the_exact_one(
    dtype: torch.dtype, rows: int, outputs: int, gates: bool, groups: int
) -> None:
    columns = 96
    x, norm = random(rows, columns, dtype=torch.float16), random(columns, seed=2, dtype=torch.float16)
    weight, wide = stored_weight(dtype, outputs, columns, groups)
    bias = None if gates else random(outputs, seed=5, dtype=torch.float16)
    product = F.linear(F.rms_norm(x.double(), (columns,), norm.double(), 1e-6), wide)
    product = product if bias is None else product + bias.double()
    first, second = product.chunk(2, dim=1)
    expected = (F.silu(first) * second if gates else product).half()
    found = gemv(x, weight, bias, norm=(norm, 1e-6), gates=gates)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
    for row in range(rows):  # bitwise equal in any batch
        mine = gemv(x[row : row + 1], weight, bias, norm=(norm, 1e-6), gates=gates)
        assert torch.equal(mine[0], found[row])


@pytest.mark.parametrize("outputs", [2560, 6144, 9728])
@pytest.mark.parametrize(
    "tile", [products._TILE, products._LONG_TILE, products._NARROW_TILE, products._LONG_NARROW_TILE]
)
def test_products_keep_a_large_gpu_busy(outputs: int, tile: products.Tile) -> None:
    """An H100 has 132 processors. The sizes are those of S2-Pro."""
    assert outputs // tile.outputs >= 2 * 132


def test_narrow_product_of_a_single_column() -> None:
    x, values = random(2, 1), torch.tensor([[3], [-128], [127]], dtype=torch.int8).to(DEVICE)
    found = gemv(x, StoredWeight(values, torch.ones(3, 1, device=DEVICE)))
    assert_close(found, x @ values.float().T)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_stored_values_are_widened_exactly(dtype: torch.dtype) -> None:
    """All but NaN (bits 127 and 255 of fp8): both zeros, normal and subnormal numbers."""
    bits = torch.arange(256, dtype=torch.uint8).to(DEVICE)
    values = bits[bits & 127 != 127] if dtype == torch.float8_e4m3fn else bits
    entries = values.view(dtype)[:, None].repeat(1, 16)
    x = torch.eye(16, device=DEVICE)
    for column in (0, 1, 2, 3, 15) if DEVICE == "cuda" else (0, 15):  # a GPU has four values in a register
        weight = StoredWeight(entries, torch.ones(len(entries), 1, device=DEVICE))
        assert torch.equal(gemv(x[column : column + 1], weight)[0], entries[:, 0].float())


@pytest.mark.parametrize(("draws", "candidates"), [(11, 32), (3, 7), (1, 256)])
def test_noise_kernel_equals_plain_noise(draws: int, candidates: int) -> None:
    keys = torch.tensor([0, -1, 2**63 - 1, -(2**63), 12345], device=DEVICE)
    frames = torch.tensor([0, 1, 7, 100_000, 2**31], device=DEVICE)
    found = kernel_sampling.gumbel_noise(keys, frames, draws, candidates)
    assert found.isfinite().all()
    torch.testing.assert_close(found, gumbel_noise(keys, frames, draws, candidates), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "candidates", "dtype"),
    [
        (65, 32, torch.float32), (65, 32, DTYPES[-1]), (1, 32, torch.float32), (20, 64, torch.float32),
        (300, 32, torch.float32),
    ],
)  # fmt: skip
def test_draw_kernel_equals_plain_sampling(values: int, candidates: int, dtype: torch.dtype) -> None:
    """Ten rows with different options; some repeat a recent value and are redrawn."""
    rows = 10
    # Values are distinct in bf16, too (8 bits and a power of two), since the order of equal ones is undefined.
    ranks = torch.stack([torch.randperm(values) for _ in range(rows)]) - values // 2
    logits = ranks.to(DEVICE, dtype) * 2.0 ** -round(math.log2(values / 8))
    options = RowOptions(
        torch.tensor([0.7, 0.0, 1.3, 1.0, 2.0] * 2, device=DEVICE)[:, None],
        torch.tensor([0.8, 0.9, 1.0, 0.05, 0.95] * 2, device=DEVICE)[:, None],
        torch.tensor([30, 30, candidates, 5, 1] * 2, device=DEVICE)[:, None],
    )
    noise = gumbel_noise(torch.arange(rows, device=DEVICE), torch.arange(rows, device=DEVICE), 3, candidates)
    first = sample(logits, options.filter(candidates), noise[:, 2])
    assert torch.equal(kernel_sampling.draw(logits, options, noise[:, 2]), first)
    recent = torch.full((rows, 10), -1, device=DEVICE)
    recent[2, 9] = recent[8, 0] = values - 1
    recent[:5, 4] = sample(logits, options.filter(candidates), noise[:, 0])[:5]
    expected = sample_semantic(logits, options, recent, noise[:, :2])
    assert torch.equal(kernel_sampling.draw(logits, options, noise[:, :2], recent), expected)


def test_sampling_is_fused_only_if_it_agrees(small_model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (20,)
    assert use_fused_sampling(small_model.slow, sizes) is None
    assert small_model.slow.sampling_backend is not None
    small_model.slow.sampling_backend = None
    usual = kernel_sampling.draw
    with monkeypatch.context() as patch:
        patch.setattr(kernel_sampling, "draw", lambda *given: usual(*given) ^ 1)
        assert use_fused_sampling(small_model.slow, sizes) == "sampling kernels: they draw other values"
    with monkeypatch.context() as patch:
        patch.setattr(kernel_sampling, "gumbel_noise", lambda *given: gumbel_noise(*given) + 0.5)
        assert use_fused_sampling(small_model.slow, sizes) == "sampling kernels: their noise differs by 0.5"
    assert small_model.slow.sampling_backend is None


@pytest.fixture
def small_model(monkeypatch: pytest.MonkeyPatch) -> DualAR:
    """A private, mutable miniature. Few layers, rows, positions and programs and short splits: the interpreter is
    slow."""
    monkeypatch.setattr(attention, "SPLIT", 16)
    monkeypatch.setattr(attention, "_STEP_BYTES", 64)
    monkeypatch.setattr(agreement, "_CACHE", 24)
    monkeypatch.setattr(agreement, "_DRAWS", 4)
    monkeypatch.setattr(module, "_CHECKED_ROWS", (2, 5))
    for name in ("_TILE", "_LONG_TILE", "_NARROW_TILE"):
        monkeypatch.setattr(products, name, products.Tile(outputs=64, columns=1024, ahead=1, warps=4))
    monkeypatch.setattr(products, "_DOT_OUTPUTS", 64)
    made = load_dual_ar(MINIATURE, dtype=torch.float32, device=DEVICE)
    for stack in (made.slow, made.fast):
        stack.layers = stack.layers[:1]
        for block in stack.layers:
            assert isinstance(block, TransformerBlock)
            block.feed_forward.merge()
    return made


def test_fast_stack_is_fused_if_kernels_agree(small_model: DualAR) -> None:
    assert use_fused_steps(small_model.fast) is None
    assert isinstance(small_model.fast.step_backend, FusedStepBackend)


def test_fused_frame_draws_equal_codes(small_model: DualAR) -> None:
    """A frame of three rows through both stacks, with a cache longer than the rows."""
    slow, fast = small_model.slow, small_model.fast
    fast.num_codebooks = 4
    frame = FrameStep(slow, fast, 64)

    def draw() -> tuple[Tensor, Tensor, Tensor]:
        cache = slow.new_cache(3, 40)
        cache.buffer.copy_(random(*cache.buffer.shape))
        state = replace(_state(small_model), position=torch.tensor([5, 39, 16], device=DEVICE))
        noise = frame.noise(state, 32)
        semantic, hidden = frame.semantic(state, StaticRowsView(cache, state.position, 40), noise)
        return semantic, frame.codes(state.options, hidden, semantic, noise), hidden

    semantic, codes, hidden = draw()
    slow.step_backend, fast.step_backend, slow.sampling_backend = (
        FusedStepBackend(slow),
        FusedStepBackend(fast),
        sampling_kernels(),
    )
    fused_semantic, fused_codes, fused_hidden = draw()
    torch.testing.assert_close(fused_hidden, hidden, rtol=1e-4, atol=1e-4)
    assert torch.equal(fused_semantic, semantic)
    assert torch.equal(fused_codes, codes)


def _state(model: DualAR) -> DecodeState:
    state = DecodeState.idle(3, model.slow, torch.device(DEVICE))
    state.temperature.fill_(0.8)
    state.top_k.fill_(20)
    return state


def test_int8_weights_are_used_by_fused_kernels(small_model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is an optional package")
    fresh = load_dual_ar(MINIATURE, dtype=torch.float32, device=DEVICE).slow
    fresh.layers = fresh.layers[:1]
    fresh.layers[0].feed_forward.merge()  # type: ignore[union-attr, operator]
    quantization.quantize_(fresh.layers, quantization.Int8WeightOnlyConfig(set_inductor_config=False))
    assert narrow_weight(fresh.layers[0].attention.wo.weight) is not None  # type: ignore[union-attr, arg-type]
    assert use_fused_steps(fresh) is None
    # With few rows, the gate is a part of the product.
    monkeypatch.setattr(elementwise, "gate", lambda both: 2 * gate(both))
    assert "differ" in (use_fused_steps(fresh) or ""), "many rows are checked, too"


def test_fp8_weights_are_used_by_fused_kernels(small_model: DualAR) -> None:
    """The weights are stored by torchao, which widens them in unfused products."""
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is an optional package")
    fresh = load_dual_ar(MINIATURE, dtype=torch.float32, device=DEVICE).slow
    fresh.layers = fresh.layers[:1]
    fresh.layers[0].feed_forward.merge()  # type: ignore[union-attr, operator]
    quantization.quantize_(fresh.layers, quantization.Float8WeightOnlyConfig(set_inductor_config=False))
    assert narrow_weight(fresh.layers[0].attention.wo.weight) is not None  # type: ignore[union-attr, arg-type]
    assert use_fused_steps(fresh) is None


def test_differing_kernels_are_not_used(small_model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = attention.attend_new

    def forgetful(fused: Tensor, cache: Tensor, positions: Tensor, lengths: Tensor, *more: Any, **options: Any) -> None:
        usual(fused, cache, positions, (lengths - 1).clamp(min=1), *more, **options)

    monkeypatch.setattr(attention, "attend_new", forgetful)
    why = use_fused_steps(small_model.slow)
    assert why is not None
    assert "differ" in why
    assert small_model.slow.step_backend is None


def test_kernels_that_differ_only_in_a_frame_are_not_used(small_model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, fast = attention.attend_new, small_model.fast

    def forgetful(fused: Tensor, cache: Tensor, positions: Tensor, lengths: Tensor, *more: Any, **options: Any) -> None:
        within_frame = cache.shape[3] == fast.num_codebooks
        usual(fused, cache, positions, (lengths - 1).clamp(min=1) if within_frame else lengths, *more, **options)

    monkeypatch.setattr(attention, "attend_new", forgetful)
    assert "differ" in (use_fused_steps(fast) or "")
    assert use_fused_steps(small_model.slow) is None
    assert isinstance(small_model.slow.step_backend, FusedStepBackend)


def test_failing_kernels_are_not_used(small_model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no ptxas found\nin any place")

    monkeypatch.setattr(module, "step_difference", fails)
    assert use_fused_steps(small_model.fast) == "kernels: no ptxas found"
    assert small_model.fast.step_backend is None


def by_columns(weight: Tensor) -> Tensor:
    """Return the same values `[E, D]`, stored by columns."""
    return weight.t().contiguous().t()


def test_kernels_read_only_weights_that_are_stored_by_rows() -> None:
    values, scale = torch.ones(8, 64, dtype=torch.int8), torch.ones(8, 2)
    assert module.stored_weight(values.float()) is not None
    assert module.stored_weight(by_columns(values.float())) is None
    assert module.stored_weight(values.float()[:, :32]) is None
    for stored, factors, is_read in (
        (values, scale, True),
        (by_columns(values), scale, False),
        (values, by_columns(scale), False),
    ):
        weight = _Quantized(stored, factors)
        assert (module.stored_weight(weight) is not None) is is_read


class _Quantized(Tensor):
    """A fake of torchao's weights in 8 bits."""

    qdata: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, qdata: Tensor, scale: Tensor) -> "_Quantized":
        made = torch.Tensor._make_subclass(cls, torch.empty(qdata.shape))
        made.qdata, made.scale = qdata, scale
        return made


def test_weights_stored_by_columns_are_multiplied_rightly(small_model: DualAR) -> None:
    """By the plain product; `Transformer.prepare_for_decoding` stores those of a CPU so."""
    stack = small_model.slow
    head = random(65, stack.config.dim)
    x = random(2, 1, stack.config.dim, seed=1)
    fused, expected = FusedStepBackend(stack), F.linear(stack.norm(x), head)
    assert_close(fused.head(x, by_columns(head)), expected)
    for layer in stack._linear_layers():
        layer.weight = torch.nn.Parameter(by_columns(layer.weight), requires_grad=False)
    assert use_fused_steps(stack) is None


@pytest.mark.parametrize("checked", ["step_difference", "frame_difference", "head_difference"])
def test_kernels_that_return_nan_in_one_check_are_not_used(
    checked: str, small_model: DualAR, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("step_difference", "frame_difference", "head_difference"):
        difference = math.nan if name == checked else 0.01
        monkeypatch.setattr(module, name, lambda *_, difference=difference, **__: difference)
    assert use_fused_steps(small_model.fast) == "kernels: they differ from the plain ones by nan"
    assert small_model.fast.step_backend is None


def test_positions_of_a_frame_equal_the_plain_run(small_model: DualAR) -> None:
    """Two at first, then one at a time."""
    fast, rows = small_model.fast, 3
    fused, view, growing = FusedStepBackend(fast), FrameView(fast.new_cache(rows, 4)), GrowingView(fast.config.n_layer)
    for step, new in enumerate((2, 1, 1)):
        x = random(rows, new, fast.config.dim, seed=step)
        assert_close(fused(x, view), fast.run_plain(x, growing))


def test_frame_view_equals_growing_view(small_model: DualAR) -> None:
    fast = small_model.fast
    views = GrowingView(fast.config.n_layer), FrameView(fast.new_cache(2, fast.num_codebooks))
    for new in (2, 1, 1):
        x = random(2, new, fast.config.dim, seed=new)
        one, other = (fast.run_plain(x, view) for view in views)
        torch.testing.assert_close(one, other)
