"""Native code against the plain run of the same blocks, and a row alone against the same row in a batch."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.families.s2.dual_ar import DualAR, load_dual_ar
from engine.models.config import TransformerConfig
from engine.models.kv_cache import FrameView, GrowingView, KVCache, UnpaddedRowsView
from engine.models.native import run as module
from engine.models.native.build import SOURCE, NoNativeCode
from engine.models.native.run import NativeStepBackend, draw, use_native_sampling, use_native_steps
from engine.models.prompt import Prompt
from engine.models.sampling import (
    GREEDY,
    REPETITION_TEMPERATURE,
    REPETITION_TOP_P,
    RowOptions,
    SamplingOptions,
    gumbel_noise,
    sample,
    sample_semantic,
)
from engine.models.transformer import Transformer
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.step_runners import GraphMode
from engine.serving.runner.traces import TorchScriptCapture
from tests.paths import MINIATURE

pytestmark = [
    pytest.mark.skipif(
        shutil.which((os.environ.get("CC", "").split() or ["cc"])[0]) is None, reason="there is no C compiler"
    ),
    pytest.mark.usefixtures("inference"),
]

POSITIONS, SLOTS = 40, 3
CONFIG = TransformerConfig(
    vocab_size=8, n_layer=2, n_head=4, n_local_heads=2, head_dim=16, dim=64, intermediate_size=96,
    max_seq_len=POSITIONS, rope_base=1e4, norm_eps=1e-6, tie_word_embeddings=True,
    attention_qkv_bias=False, attention_o_bias=False, attention_qk_norm=True,
)  # fmt: skip
# Sizes that fill no vector, one head a group, biases, no norms of queries and keys.
ODD = replace(CONFIG, n_head=3, n_local_heads=3, head_dim=10, dim=37, intermediate_size=51, attention_qk_norm=False)
CONFIGS = {
    "even": CONFIG,
    "odd": replace(ODD, attention_qkv_bias=True, attention_o_bias=True),
    "grouped": replace(CONFIG, n_head=6, n_local_heads=1, head_dim=12),
}


@pytest.fixture
def inference() -> object:
    with torch.inference_mode():
        yield


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> TransformerConfig:
    return CONFIGS[request.param]


def stack_of(config: TransformerConfig, *, half: bool = False) -> Transformer:
    """A stack with random weights. half: whether fp16 holds them exactly."""
    chance = torch.Generator().manual_seed(0)
    stack = Transformer(config)
    for weight in stack.parameters():
        weight.data = torch.randn(weight.shape, generator=chance) / weight.shape[-1] ** 0.5
        if half:
            weight.data = weight.data.half().float()
    return stack.requires_grad_(False)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def filled(stack: Transformer) -> KVCache:
    cache = stack.new_cache(SLOTS, POSITIONS)
    cache.buffer.copy_(random(*cache.buffer.shape, seed=9))
    return cache


def relative(expected: Tensor, found: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9])
def test_rows_equal_the_plain_run(config: TransformerConfig, rows: int, half: bool) -> None:
    stack = stack_of(config, half=half)
    native, x = NativeStepBackend(stack), random(rows, 1, config.dim)
    slots, positions = [i % SLOTS for i in range(rows)], [(7 * i) % POSITIONS for i in range(rows)]
    plain, other = filled(stack), filled(stack)
    expected = stack.run_plain(x, UnpaddedRowsView(plain, slots, positions))
    assert relative(expected, native(x, UnpaddedRowsView(other, slots, positions))) < 1e-5
    assert relative(plain.buffer, other.buffer) < 1e-5
    assert torch.equal(plain.buffer == filled(stack).buffer, other.buffer == filled(stack).buffer), "nothing else"


@pytest.mark.parametrize("half", [False, True])
def test_a_row_is_bit_identical_in_any_batch(config: TransformerConfig, half: bool) -> None:
    stack = stack_of(config, half=half)
    native, x = NativeStepBackend(stack), random(9, 1, config.dim)

    def run(rows: Sequence[int]) -> Tensor:
        view = UnpaddedRowsView(filled(stack), [i % SLOTS for i in rows], [(5 * i) % POSITIONS for i in rows])
        return native(x[list(rows)], view)

    alone = torch.cat([run([i]) for i in range(9)])
    # Batches of rows that do not see each other, in several orders.
    for rows in ([0, 1], [2, 1, 0], [4, 3, 8], [6, 7, 8], [5, 4]):
        assert torch.equal(run(rows), alone[rows])


def test_rows_of_one_slot_see_those_before_them(config: TransformerConfig) -> None:
    stack = stack_of(config)
    native, x = NativeStepBackend(stack), random(6, 1, config.dim)
    one_by_one, together = filled(stack), filled(stack)
    expected = torch.cat([native(x[i : i + 1], UnpaddedRowsView(one_by_one, [1], [10 + i])) for i in range(6)])
    found = native(x, UnpaddedRowsView(together, [1] * 6, list(range(10, 16))))
    assert torch.equal(found, expected)
    assert torch.equal(together.buffer, one_by_one.buffer)


def test_positions_of_a_frame_equal_the_plain_run(config: TransformerConfig) -> None:
    """Two at first, as in the Fast AR, then one at a time."""
    stack, rows = stack_of(config), 3
    native, view, plain = NativeStepBackend(stack), FrameView(stack.new_cache(rows, 6)), GrowingView(config.n_layer)
    for step, new in enumerate((2, 1, 1, 1)):
        x = random(rows, new, config.dim, seed=step)
        assert relative(stack.run_plain(x, plain), native(x, view)) < 1e-5


def test_the_values_of_inputs_are_kept() -> None:
    stack, x = stack_of(CONFIG), random(2, 1, CONFIG.dim)
    before = x.clone()
    NativeStepBackend(stack)(x, UnpaddedRowsView(filled(stack), [0, 1], [3, 4]))
    assert torch.equal(x, before)


def test_large_scores_do_not_overflow() -> None:
    stack = stack_of(CONFIG)
    blocks: Any = stack.layers
    for block in blocks:
        block.attention.wqkv.weight.data *= 1000
        block.feed_forward.w1.weight.data *= 1000
    x, views = 100 * random(2, 1, CONFIG.dim), [UnpaddedRowsView(filled(stack), [0, 1], [30, 8]) for _ in range(2)]
    found = NativeStepBackend(stack)(x, views[0])
    assert found.isfinite().all()
    assert relative(stack.run_plain(x, views[1]), found) < 1e-3


def frames(model: DualAR, capture: TorchScriptCapture | None, company: int) -> list[list[int]]:
    """Six frames of slot 0, beside so many other slots."""
    kept = PrefixCache(torch.device("cpu"), 1 << 24, 0)
    mode: GraphMode = "off" if capture is None else "frame"
    runner = ModelRunner(model, 64, slots=4, positions=128, prefixes=kept, capture=capture, mode=mode)
    while runner.capture_next():
        pass
    assert runner.graph_state == mode
    slots = range(1 + company)
    for slot in slots:
        columns = torch.zeros(model.config.num_codebooks + 1, 20 + slot, dtype=torch.long)
        columns[0] = torch.arange(20 + slot) % 50
        runner.begin(slot, Prompt(columns), SamplingOptions(), key=slot)
        while slot not in runner.prefill([slot]):
            pass
    return [runner.step(list(slots)).frames()[0].tolist() for _ in range(6)]


@pytest.mark.parametrize("values", [1025, 64, 13, 5])
def test_draws_equal_the_plain_ones(values: int) -> None:
    chance = torch.Generator().manual_seed(values)
    for _ in range(60):
        logits = 3 * torch.randn(4, values, generator=chance)
        options = RowOptions(
            1.2 * torch.rand(4, 1, generator=chance).round(decimals=1),  # some of them greedy
            0.01 + 0.99 * torch.rand(4, 1, generator=chance),
            torch.randint(1, 33, (4, 1), generator=chance),
        )
        noise = gumbel_noise(torch.randint(2**60, (4,), generator=chance), torch.arange(4), 2, 32)
        first = sample(logits, options.filter(32), noise[:, 0])
        assert torch.equal(draw(logits, options, noise[:, 0]), first)
        recent = torch.randint(values, (4, 10), generator=chance)
        recent[:2, 3] = first[:2]
        assert torch.equal(draw(logits, options, noise, recent), sample_semantic(logits, options, recent, noise))


def test_the_lower_of_equal_logits_ranks_first() -> None:
    options = RowOptions(torch.zeros(1, 1), torch.ones(1, 1), torch.full((1, 1), 4))
    logits = torch.tensor([[0.0] * 9 + [2.0, 1.0, 2.0]])
    assert draw(logits, options, torch.zeros(1, 32)).tolist() == [9]


def test_constants_are_those_of_the_plain_functions() -> None:
    source = SOURCE.read_text("utf-8")
    assert f"#define REPETITION_TEMPERATURE {REPETITION_TEMPERATURE}f" in source
    assert f"#define REPETITION_TOP_P {REPETITION_TOP_P}f" in source
    assert f"greedy = {GREEDY:.0e}f".replace("e+", "e") in source


def test_draws_that_differ_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu").slow
    monkeypatch.setattr(module, "draw", lambda logits, *_: logits.argmin(-1))
    assert use_native_sampling(slow, (65, 64)) == "native draws: they draw other values"
    assert slow.sampling_backend is None


def test_traced_and_eager_frames_draw_the_same_in_any_batch() -> None:
    model = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu")
    plain = frames(model, None, 0)
    for stack in (model.slow, model.fast):
        assert use_native_steps(stack) is None
        assert isinstance(stack.step_backend, NativeStepBackend)
        stack.prepare_for_decoding()
    assert use_native_sampling(model.slow, (65, 64)) is None
    assert model.slow.sampling_backend is not None
    capture = TorchScriptCapture()
    for traced, company in ((None, 0), (None, 2), (capture, 0), (capture, 3)):
        assert frames(model, traced, company) == plain


def test_code_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(CONFIG)
    matrices = module._gate_weight
    monkeypatch.setattr(module, "_gate_weight", lambda feed: matrices(feed).flip(0))  # the gate is exchanged
    why = use_native_steps(stack)
    assert why is not None
    assert why.startswith("native code: it differs from the plain one by ")
    assert stack.step_backend is None


def test_without_a_compiler_the_plain_run_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NoNativeCode("no C compiler")

    monkeypatch.setattr(module, "library", missing)
    stack = stack_of(CONFIG)
    assert use_native_steps(stack) == "native code: no C compiler"
    assert stack.step_backend is None
    slow = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu").slow
    assert (use_native_sampling(slow, (65,)), slow.sampling_backend) == (None, None), "it is reported once"


def test_other_weights_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither 16 bits nor integers, nor stacks that need several threads."""
    assert (use_native_steps(stack := stack_of(CONFIG).bfloat16()), stack.step_backend) == (None, None)
    int8 = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu", precision="int8")
    assert (use_native_steps(int8.slow), int8.slow.step_backend) == (None, None)
    assert (use_native_sampling(int8.slow, (65,)), int8.slow.sampling_backend) == (None, None)
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    assert (use_native_steps(stack := stack_of(CONFIG)), stack.step_backend) == (None, None)
