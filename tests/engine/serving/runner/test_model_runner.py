"""Batched requests draw the same frames as single ones, with every step runner."""

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from engine.families.s2.dual_ar import DualAR, load_dual_ar, read_header
from engine.models.frame_step import DecodeState
from engine.models.kv_cache import KVCache, StaticPromptView
from engine.models.prompt import Prompt
from engine.models.quantization import Precision
from engine.models.sampling import SamplingOptions
from engine.models.transfer import to_device
from engine.release.hub import BUNDLED
from engine.serving.runner import prefill_graphs, step_runners
from engine.serving.runner import slots as slot_pool
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.slots import GPU_PREFILL_CHUNK, PADDED_SIZES, PREFILL_CHUNK, SlotPool
from engine.serving.runner.step_runners import GraphMode
from engine.serving.runner.traces import TorchScriptCapture
from engine.text.tokenizer import VOICE
from tests.engine.conftest import golden
from tests.engine.serving.graph_capture import (
    EagerCapture,
    FailingGraphCapture,
    FakeGraphCapture,
    ShortOfMemory,
    fill_device,
)
from tests.paths import MINIATURE

RESIDUAL = 64
FRAMES = 4
SLOTS = 5
CODEBOOKS = 3  # of the miniature's ten
LENGTHS = (3, 130, 250, 290)  # prompts within a prefill chunk, across chunks, and across spans
Codes = NDArray[np.int64]


@pytest.fixture(scope="module")
def bundled() -> DualAR:
    return load_dual_ar(BUNDLED, dtype=torch.float32, device="cpu")


def load_short(precision: Precision = "fp32", dtype: torch.dtype = torch.float32, host_rows: int = 0) -> DualAR:
    """Load the miniature with fewer codebooks, since most of the time of a frame or of its trace is theirs."""
    model = load_dual_ar(MINIATURE, dtype=dtype, device="cpu", precision=precision, host_rows=host_rows)
    model.slow.num_codebooks = model.fast.num_codebooks = CODEBOOKS
    return replace(model, config=replace(model.config, num_codebooks=CODEBOOKS))


@pytest.fixture(scope="module")
def short() -> DualAR:
    return load_short()


@pytest.fixture(scope="module")
def int8() -> DualAR:
    model = load_short("int8")
    for stack in (model.slow, model.fast):
        stack.prepare_for_decoding()
    return model


@pytest.fixture(scope="module")
def exact(short: DualAR) -> list[Codes]:
    return draw_alone(short)


@pytest.fixture(scope="module")
def exact_int8(int8: DualAR) -> list[Codes]:
    return draw_alone(int8)


def runner(model: DualAR, **options: object) -> ModelRunner:
    kept = PrefixCache(torch.device("cpu"), 1 << 26, 0)
    sizes = {"slots": SLOTS, "positions": 512, "prefixes": kept}
    residual = min(model.config.fast.vocab_size, 512) if model.config.fast.vocab_size > 512 else RESIDUAL
    return ModelRunner(model, residual, **{**sizes, **options})  # type: ignore[arg-type]


def prompt(model: DualAR, length: int, seed: int, shared: int = 0) -> Prompt:
    columns = torch.zeros(model.config.num_codebooks + 1, length, dtype=torch.long)
    columns[0] = torch.randint(0, 60, (length,), generator=torch.Generator().manual_seed(seed))
    return Prompt(columns, shared)


def options(index: int) -> SamplingOptions:
    kinds = (SamplingOptions(), SamplingOptions(0.9, 0.95, 64), SamplingOptions(temperature=0), SamplingOptions(1.3, 1))
    return kinds[index % len(kinds)]


def begin(run: ModelRunner, slot: int, request_prompt: Prompt, index: int) -> int:
    reused = run.begin(slot, request_prompt, options(index), key=1000 + index)
    while not run.prefill([slot]):
        pass
    return reused


def capture_all(run: ModelRunner) -> None:
    while run.capture_next():
        pass


def run_alone(
    model: DualAR, request_prompt: Prompt, index: int, frames: int = FRAMES, slot: int = 0, **made: object
) -> Codes:
    run = runner(model, **made)
    begin(run, slot, request_prompt, index)
    return np.stack([run.step([slot]).frames()[0] for _ in range(frames)])


def draw_alone(model: DualAR) -> list[Codes]:
    """Return the frames of one request of each length, drawn eagerly and alone."""
    return [run_alone(model, prompt(model, length, length), i) for i, length in enumerate(LENGTHS)]


def run_together(run: ModelRunner, prompts: Sequence[Prompt], frames: int = FRAMES, seed: int = 0) -> list[Codes]:
    """Run requests that begin one after the other, where each step runs for a random subset."""
    chance = random.Random(seed)
    slots = chance.sample(range(run.slots), len(prompts))
    drawn: list[list[Codes]] = [[] for _ in prompts]
    begun = 0
    while any(len(codes) < frames for codes in drawn):
        if begun < len(prompts) and (begun == 0 or chance.random() < 0.3):
            begin(run, slots[begun], prompts[begun], begun)
            begun += 1
        unfinished = [i for i in range(begun) if len(drawn[i]) < frames]
        chosen = sorted(chance.sample(unfinished, chance.randint(0, len(unfinished))), key=slots.__getitem__)
        if chosen:
            for i, frame in zip(chosen, run.step([slots[i] for i in chosen]).frames(), strict=True):
                drawn[i].append(frame)
    return [np.stack(codes) for codes in drawn]


@settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(2, 300), min_size=1, max_size=SLOTS), seed=st.integers(0, 2**16))
def test_batched_requests_equal_single_ones(short: DualAR, lengths: list[int], seed: int) -> None:
    prompts = [prompt(short, length, seed + i) for i, length in enumerate(lengths)]
    for i, codes in enumerate(run_together(runner(short), prompts, seed=seed)):
        np.testing.assert_array_equal(codes, run_alone(short, prompts[i], i))


@pytest.mark.parametrize("mode", ["off", "frame"])
def test_batched_int8_requests_equal_single_ones(int8: DualAR, exact_int8: list[Codes], mode: GraphMode) -> None:
    prompts = [prompt(int8, length, length) for length in LENGTHS]
    capture = None if mode == "off" else TorchScriptCapture()
    run = runner(int8, slots=len(LENGTHS), capture=capture, mode=mode)
    capture_all(run)
    for codes, expected in zip(run_together(run, prompts), exact_int8, strict=True):
        np.testing.assert_array_equal(codes, expected)
    assert run.graph_state == mode


@pytest.mark.slow
def test_batched_requests_of_bundled_model_equal_single_ones(bundled: DualAR) -> None:
    prompts = [prompt(bundled, 40 + 120 * i, i) for i in range(3)]
    for i, codes in enumerate(run_together(runner(bundled), prompts, FRAMES // 2)):
        np.testing.assert_array_equal(codes, run_alone(bundled, prompts[i], i, FRAMES // 2))


def test_greedy_frames_equal_reference(miniature: DualAR) -> None:
    tensors = golden("dual_ar")
    run = ModelRunner(
        miniature,
        miniature.config.fast.vocab_size,
        slots=2,
        positions=256,
        prefixes=PrefixCache(torch.device("cpu"), 0, 0),
    )
    run.begin(1, Prompt(tensors["prompt"].long()), SamplingOptions(temperature=0), key=0)
    while not run.prefill([1]):
        pass
    for expected in tensors["greedy_frames"].long():
        np.testing.assert_array_equal(run.step([1]).frames()[0, 1:], expected[1:].numpy())


@pytest.mark.parametrize("mode", ["frame", "fast"])
def test_captured_steps_equal_exact_steps(short: DualAR, exact: list[Codes], mode: GraphMode) -> None:
    """Captured steps use masked static shapes, so logits may differ by rounding, but the codes are equal.

    Graphs for the usual top-k options are captured in advance; whole frames with more candidates on first use.
    """
    graphs = FakeGraphCapture()
    prompts = [prompt(short, length, length) for length in LENGTHS]
    run = runner(short, slots=len(LENGTHS), capture=graphs, mode=mode)
    capture_all(run)
    made = graphs.captured
    recorded = run_together(run, prompts)
    assert 0 < made <= graphs.captured < graphs.replayed
    assert (graphs.captured > made) == (mode == "frame")
    assert run.graph_state == mode
    for codes, expected in zip(recorded, exact, strict=True):
        np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("mode", ["frame", "fast"])
def test_traced_steps_equal_exact_steps(short: DualAR, exact: list[Codes], mode: GraphMode) -> None:
    """Codes are equal even if requests run while the steps are traced."""
    prompts = [prompt(short, length, length) for length in LENGTHS]
    run = runner(short, slots=len(LENGTHS), capture=TorchScriptCapture(), mode=mode)
    begin(run, 0, prompts[0], 0)
    first = [run.step([0]).frames()[0] for _ in range(FRAMES // 2)]
    capture_all(run)
    second = [run.step([0]).frames()[0] for _ in range(FRAMES - FRAMES // 2)]
    np.testing.assert_array_equal(np.stack(first + second), exact[0])
    for codes, expected in zip(run_together(run, prompts), exact, strict=True):
        np.testing.assert_array_equal(codes, expected)
    assert run.graph_state == mode


def test_more_rows_than_are_traced_run_eagerly(
    short: DualAR, exact: list[Codes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_runners, "MAX_TRACED_ROWS", 1)
    run, captured = runner(short, slots=len(LENGTHS), capture=TorchScriptCapture(), mode="frame"), 0
    while run.capture_next():
        captured += 1
    assert captured == 1
    prompts = [prompt(short, length, length) for length in LENGTHS]
    for codes, expected in zip(run_together(run, prompts), exact, strict=True):
        np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("mode", ["frame", "fast"])
def test_failed_capture_is_logged_once_and_steps_run_eagerly(
    short: DualAR, mode: GraphMode, caplog: pytest.LogCaptureFixture
) -> None:
    run = runner(short, capture=FailingGraphCapture(), mode=mode)
    request_prompt = prompt(short, 150, 2)
    capture_all(run)
    begin(run, 1, request_prompt, 0)
    drawn = np.stack([run.step([1]).frames()[0] for _ in range(FRAMES)])
    np.testing.assert_array_equal(drawn, run_alone(short, request_prompt, 0))
    assert len(caplog.records) == (2 if mode == "frame" else 1)  # of frames and of prompts
    assert "not permitted" in run.graph_state


@pytest.mark.parametrize("deterministic", [False, True])
def test_numbers_of_slots_are_copied_without_waiting(
    short: DualAR, deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, `torch.tensor` waits for its copy, for every slot that is computed alone."""
    copied: list[Any] = []
    monkeypatch.setattr(
        step_runners, "to_device", lambda tensor, device: copied.append(tensor.tolist()) or to_device(tensor, device)
    )
    run = runner(short, deterministic=deterministic)
    for slot in (1, 3):
        begin(run, slot, prompt(short, 5, slot), slot)
    run.step([1, 3])
    assert copied == ([[1], [3]] if deterministic else [[1, 3]])


@pytest.mark.parametrize("mode", ["frame", "fast"])
def test_graphs_that_lacked_memory_are_captured_when_idle(short: DualAR, mode: GraphMode) -> None:
    graphs = ShortOfMemory(2)
    run = runner(short, capture=graphs, mode=mode)
    capture_all(run)
    assert graphs.failing == 0
    assert run.graph_state == mode
    assert not run.capture_next()


def test_cached_prefix_is_reused_with_equal_frames(short: DualAR) -> None:
    voice = 2 * PREFILL_CHUNK + 17
    request_prompt = prompt(short, voice + 40, 5, shared=voice)
    fresh = run_alone(short, request_prompt, 0)
    run = runner(short)
    assert begin(run, 0, request_prompt, 0) == 0
    # Reused from the prefix cache, in a slot that never held it:
    assert begin(run, 4, request_prompt, 0) == voice
    np.testing.assert_array_equal(np.stack([run.step([4]).frames()[0] for _ in range(FRAMES)]), fresh)
    # Reused from the slot itself, although it has generated frames: all but the last column.
    assert begin(run, 4, request_prompt, 0) == voice + 39
    np.testing.assert_array_equal(np.stack([run.step([4]).frames()[0] for _ in range(FRAMES)]), fresh)
    # Another text in the same voice reuses only the voice; another voice reuses nothing.
    other = Prompt(torch.cat((request_prompt.columns[:, :voice], prompt(short, 60, 6).columns), dim=1), voice)
    assert begin(run, 2, other, 1) == voice
    np.testing.assert_array_equal(
        np.stack([run.step([2]).frames()[0] for _ in range(FRAMES)]), run_alone(short, other, 1)
    )
    assert begin(run, 2, prompt(short, voice + 40, 7, shared=voice), 1) == 0


def test_voice_that_cannot_be_kept_is_spoken(
    short: DualAR, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A GPU without free memory for a copy of its keys and values has computed them all the same."""
    request_prompt = prompt(short, 300, 5, shared=290)
    fresh, run = run_alone(short, request_prompt, 0), runner(short)
    with monkeypatch.context() as patch:
        patch.setattr(KVCache, "copy_out", Mock(side_effect=torch.OutOfMemoryError("no room")))
        begin(run, 0, request_prompt, 0)
    np.testing.assert_array_equal(np.stack([run.step([0]).frames()[0] for _ in range(FRAMES)]), fresh)
    assert "no room" in caplog.text
    assert begin(run, 4, request_prompt, 0) == 0
    assert begin(run, 3, request_prompt, 0) == 290


def test_voice_with_one_changed_value_is_not_reused(short: DualAR) -> None:
    request_prompt = prompt(short, 300, 5, shared=290)
    run = runner(short)
    begin(run, 0, request_prompt, 0)
    changed = request_prompt.columns.clone()
    changed[3, 20] += 1
    assert begin(run, 1, Prompt(changed, 290), 0) == 0


def test_prompts_that_fit_no_slot_are_rejected(short: DualAR) -> None:
    run = runner(short, positions=100)
    with pytest.raises(ValueError, match="99"):
        run.begin(0, prompt(short, 100, 0), SamplingOptions(), 0)
    with pytest.raises(ValueError, match="prompt of 1 "):
        run.begin(0, prompt(short, 1, 0), SamplingOptions(), 0)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["frame", "fast"])
def test_cuda_graph_steps_equal_eager_steps(mode: GraphMode) -> None:
    """Both run the same numbers of rows: products of other numbers round differently."""
    from engine.serving.runner.graphs import CudaGraphCapture

    device = torch.device("cuda:0")
    model = load_dual_ar(MINIATURE, dtype=torch.bfloat16, device=device)
    prompts = [prompt(model, length, length) for length in LENGTHS]
    drawn = {}
    for capture in (EagerCapture(), CudaGraphCapture(device)):
        run = runner(model, prefixes=PrefixCache(device, 1 << 26, 1 << 26), capture=capture, mode=mode)
        capture_all(run)
        drawn[isinstance(capture, EagerCapture)] = run_together(run, prompts)
        assert run.graph_state == mode
    for eager, graph in zip(drawn[True], drawn[False], strict=True):
        np.testing.assert_array_equal(eager, graph)


@pytest.mark.parametrize("length", [5, 17, 100, 129, 300, 510])
def test_padded_prefill_equals_exact_prefill(short: DualAR, length: int) -> None:
    """Includes lengths where the padding does not fit into the slot, which held other values before."""
    request_prompt = prompt(short, length, length)
    caches = []
    for capture in (None, FakeGraphCapture()):
        run = runner(short, capture=capture, mode="off", positions=512)
        slots = run._slots
        slots.cache.buffer.fill_(3.0)
        begin(run, 1, request_prompt, 0)
        caches.append(slots.cache.buffer[:, :, 1, :, : length - 1])
        assert slots.cache.buffer[:, :, 0].eq(3).all()
        assert slots.cache.buffer[:, :, 2].eq(3).all()
    torch.testing.assert_close(*caches, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("clears", [False, True])
def test_captured_prefill_equals_exact_prefill(clears: bool, short: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    """In graphs of several spans, without and with a beginning that is reused. No other slot is changed."""
    if not clears:  # as for fused kernels
        monkeypatch.setattr(KVCache, "clear", lambda *_, **__: None)
    monkeypatch.setattr(prefill_graphs, "SIZES", (16, 64, 256, 511))
    monkeypatch.setattr(prefill_graphs, "SPANS", (64, 256, 511))
    graphs = FakeGraphCapture()
    runs = [
        runner(short, slots=3, capture=capture, mode="off" if capture is None else "frame")
        for capture in (None, graphs)
    ]
    for run in runs:
        capture_all(run)
    for length in (5, 17, 100, 129, 300, 510):
        longer, caches, before = prompt(short, length, length), [], graphs.replayed
        beginning = replace(longer, columns=longer.columns[:, : max(2, length // 3)])
        for run in runs:
            buffer = run._slots.cache.buffer
            buffer.fill_(3.0)
            buffer[:, :, 1] = torch.nan  # left by an earlier request
            begin(run, 1, beginning, 0)
            begin(run, 1, longer, 0)
            caches.append(buffer[:, :, 1, :, : length - 1])
            assert buffer[:, :, ::2].eq(3).all()
        torch.testing.assert_close(*caches, rtol=1e-4, atol=1e-5, msg=lambda text, n=length: f"{n} positions: {text}")  # type: ignore[misc]
        assert graphs.replayed - before == 2, length


@pytest.mark.parametrize("capture", [None, FakeGraphCapture()], ids=["eager", "graphs"])
def test_nan_of_an_earlier_request_does_not_spoil_the_next(short: DualAR, capture: FakeGraphCapture | None) -> None:
    """Steps of fixed shapes read what is behind a row under a mask, where a NaN stays one."""
    run = runner(short, capture=capture, mode="frame")
    capture_all(run)
    first = prompt(short, 90, 1)
    begin(run, 1, first, 0)
    run._slots.cache.buffer[:, :, 1, :, 60:] = torch.nan
    following = replace(first, columns=torch.cat((first.columns[:, :50], prompt(short, 20, 2).columns), dim=1))
    assert begin(run, 1, following, 1) == (50 if capture else 0)  # reused
    drawn = np.stack([run.step([1]).frames()[0] for _ in range(FRAMES)])
    np.testing.assert_array_equal(drawn, run_alone(short, following, 1))
    assert run._slots.cache.buffer[:, :, 1].isfinite().all()


def test_slots_are_not_cleared_for_kernels_that_read_exact_lengths(
    short: DualAR, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exact:
        def accepts(self, view: object) -> bool:
            return False

    monkeypatch.setattr(short.slow, "step_backend", Exact())
    run = runner(short, mode="frame")
    run._slots.cache.buffer.fill_(3.0)
    run.begin(1, prompt(short, 20, 1), options(0), key=0)
    assert run._slots.cache.buffer.eq(3).all()


@pytest.mark.parametrize("count", [4, 5])
def test_graphs_compute_few_prompts_of_a_step(short: DualAR, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two prompts follow a cached voice. More than four are computed without a graph, since each reads all weights."""
    monkeypatch.setattr(slot_pool, "_REPLAYED_PROMPTS", 4)
    voice = prompt(short, 40, 1, shared=40)
    known = [Prompt(torch.cat((voice.columns, prompt(short, 9, i).columns), dim=1), 40) for i in range(3)]
    prompts = [prompt(short, 70, 3), *known[1:], prompt(short, 300, 4), prompt(short, 20, 5)][:count]
    graphs, caches = FakeGraphCapture(), []
    for capture in (None, graphs):
        run = runner(short, capture=capture, mode="off" if capture is None else "frame")
        capture_all(run)
        begin(run, 0, known[0], 0)
        before = graphs.replayed
        for slot, each in enumerate(prompts):
            run.begin(slot, each, options(slot), key=slot)
        unread = list(range(count))
        done = run.prefill(unread) if capture else [slot for each in unread for slot in run.prefill([each])]
        assert set(unread) - set(done) == ({3} if capture is None else set())  # longer than a chunk of a CPU
        while len(done) < count:
            done += run.prefill([3])
        caches.append([run._slots.cache.buffer[:, :, i, :, : p.columns.shape[1] - 1] for i, p in enumerate(prompts)])
    assert graphs.replayed - before == (4 if count == 4 else 0)
    for exact, replayed in zip(*caches, strict=True):
        torch.testing.assert_close(exact, replayed, rtol=1e-4, atol=1e-5)


def test_prompt_with_a_graph_takes_its_share_of_a_step(short: DualAR) -> None:
    """So many prompts enter a step as graphs compute one after the other."""
    for capture, least in ((None, 0), (FakeGraphCapture(), GPU_PREFILL_CHUNK // slot_pool._REPLAYED_PROMPTS)):
        run = runner(short, capture=capture, mode="off" if capture is None else "frame")
        capture_all(run)
        costs = []
        for length in (10, 120):
            run.begin(0, prompt(short, length, length), options(0), key=0)
            costs.append(run.prefill_cost(0))
        assert costs == [max(9, least), 119]


@pytest.mark.parametrize("capture", [None, FakeGraphCapture()], ids=["eager", "graphs"])
def test_embeddings_of_text_in_host_memory_change_no_code(short: DualAR, capture: FakeGraphCapture | None) -> None:
    """The last token of a prompt, which the first frame looks up, is on the device."""
    tokenizer = read_header(MINIATURE).tokenizer
    model, columns, drawn = load_short(host_rows=tokenizer.end_id), prompt(short, 50, 1).columns, []
    columns[0, -1] = tokenizer.encode(VOICE)[-1]
    for each in (short, model):
        run = runner(each, capture=capture, mode="frame" if capture else "off")
        capture_all(run)
        begin(run, 0, Prompt(columns), 0)
        drawn.append(np.stack([run.step([0]).frames()[0] for _ in range(FRAMES)]))
    np.testing.assert_array_equal(drawn[0], drawn[1])


def test_prompts_without_graphs_are_computed_and_say_why(short: DualAR) -> None:
    run = runner(short, capture=FailingGraphCapture(), mode="frame")
    capture_all(run)
    begin(run, 1, prompt(short, 150, 2), 0)
    why = "they could not be captured (operation not permitted when stream is capturing)"
    assert run.graph_state == f"off: {why}; prompts without graphs: off: {why}"


def test_buffers_of_graphs_keep_nothing_of_a_forgotten_prompt(short: DualAR) -> None:
    run = runner(short, capture=FakeGraphCapture(), mode="frame")
    capture_all(run)
    voice = prompt(short, 40, 1, shared=30)
    for length, size in ((40, 128), (12, 32)):  # a shorter prompt reads nothing of a longer one
        begin(run, 0, prompt(short, length, length), 0)
        assert run._slots.prefill_graphs._x[0, length - 1 : size].count_nonzero() == 0
    assert run._slots.prefill_graphs._x.count_nonzero()
    run.forget(replace(voice, columns=voice.columns[:, :30]), [0])
    assert run._slots.prefill_graphs._x.count_nonzero() == 0


def test_prompts_run_without_graphs_if_these_would_differ(short: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = StaticPromptView.attend
    monkeypatch.setattr(StaticPromptView, "attend", lambda *args: usual(*args).flip(1))
    graphs = FakeGraphCapture()
    run = runner(short, capture=graphs, mode="frame")
    capture_all(run)
    assert "differ by" in run.graph_state
    before = graphs.replayed
    begin(run, 1, prompt(short, 40, 1), 0)
    assert graphs.replayed == before


def test_padded_chunks_have_few_sizes(short: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner(short, capture=FakeGraphCapture())
    sizes: set[int] = set()
    usual = short.slow.run
    monkeypatch.setattr(short.slow, "run", lambda x, view: sizes.add(x.shape[1]) or usual(x, view))
    for length in range(2, 300, 7):
        begin(run, 0, prompt(short, length, length), 0)
    assert sizes == set(PADDED_SIZES)


def test_batched_prefill_equals_single_prefill(short: DualAR) -> None:
    """Prompts of several lengths, without reuse, after a cached voice, and with all but the last position reused."""
    voice = prompt(short, 40, 1, shared=40)
    known = Prompt(torch.cat((voice.columns, prompt(short, 9, 2).columns), dim=1), 40)
    prompts = [prompt(short, 70, 3), known, prompt(short, 300, 4), prompt(short, 2, 5)]
    runs = [runner(short, capture=capture) for capture in (None, FakeGraphCapture())]
    for run, batched in zip(runs, (False, True), strict=True):
        assert run.prefills_alone is not batched
        begin(run, 0, known, 0)
        for slot, each in enumerate(prompts):
            run.begin(slot, each, options(slot), key=slot)
        unread = list(range(len(prompts)))
        while unread:
            for slots in [unread] if batched else [[slot] for slot in unread]:
                done = run.prefill(slots)
                unread = [slot for slot in unread if slot not in done]
    for slot, each in enumerate(prompts):
        read = (run._slots.cache.buffer[:, :, slot, :, : each.columns.shape[1] - 1] for run in runs)
        torch.testing.assert_close(*read, rtol=1e-4, atol=1e-5)


def test_unread_counts_remaining_positions_of_the_chunk(short: DualAR) -> None:
    run = runner(short)
    run.begin(0, prompt(short, 200, 1, shared=30), options(0), key=0)
    left = []
    while unread := run.prefill_cost(0):
        left.append(unread)
        run.prefill([0])
    assert left == [30, PREFILL_CHUNK - 30, 199 - PREFILL_CHUNK]


class TwoTurns:
    """A request that speaks one turn and continues with another."""

    def __init__(self, model: DualAR, frames: int = 40) -> None:
        self.first = prompt(model, 150, 7, shared=30)
        end = 150 + frames
        run = runner(model)
        self.run, self.codes = run, self.speak(run, 1, frames)
        columns = torch.zeros(model.config.num_codebooks + 1, end, dtype=torch.long)
        columns[:, :150] = self.first.columns
        columns[1:, 150:] = torch.from_numpy(self.codes)
        columns[0, 150:] = columns[1, 150:] + model.config.semantic_start_id
        more = prompt(model, 11, 8).columns
        self.reused = end
        self.second = Prompt(torch.cat((columns, more), dim=1), shared=30, generated_ranges=((149, end),))

    def speak(self, run: ModelRunner, slot: int, frames: int, company: Sequence[int] = ()) -> Codes:
        begin(run, slot, self.first, 0)
        drawn = [
            run.step([*company, slot]).frames()[-1, 1:] for _ in range(frames + 1)
        ]  # the last frame stands for the end
        codes = np.stack(drawn[:-1], axis=1)
        run.append_generated(slot, codes)
        return codes

    def speak_second(self, run: ModelRunner, slot: int) -> tuple[int, Codes]:
        reused = begin(run, slot, self.second, 0)
        return reused, np.stack([run.step([slot]).frames()[0] for _ in range(FRAMES)])


@pytest.fixture(scope="module")
def spoken(short: DualAR) -> TwoTurns:
    return TwoTurns(short)


def test_spoken_frames_are_not_prefilled_again(short: DualAR, spoken: TwoTurns) -> None:
    """In a slot that has not spoken them, the prefill gives bitwise equal results."""
    reused, expected = spoken.speak_second(spoken.run, 1)
    assert reused == spoken.reused
    fresh = runner(short)
    nothing, again = spoken.speak_second(fresh, 3)
    assert nothing == 0
    np.testing.assert_array_equal(again, expected)
    end = spoken.second.columns.shape[1] - 1
    one, other = (run._slots.cache.buffer[:, :, slot, :, :end] for run, slot in ((spoken.run, 1), (fresh, 3)))
    assert torch.equal(one, other)


def test_spoken_frames_are_reused_after_batched_traced_steps(short: DualAR, spoken: TwoTurns) -> None:
    run = runner(short, slots=3, capture=TorchScriptCapture(), mode="frame")
    capture_all(run)
    begin(run, 0, prompt(short, 90, 9), 1)
    np.testing.assert_array_equal(spoken.speak(run, 2, spoken.codes.shape[1], company=[0]), spoken.codes)
    fresh = spoken.speak_second(runner(short), 0)[1]
    reused, drawn = spoken.speak_second(run, 2)
    assert reused == spoken.reused
    np.testing.assert_array_equal(drawn, fresh)


def test_spoken_frames_are_set_aside_while_another_uses_the_slot(short: DualAR, spoken: TwoTurns) -> None:
    fresh = spoken.speak_second(runner(short), 0)[1]
    kept = PrefixCache(torch.device("cpu"), 1 << 26, 0)
    run = runner(short, prefixes=kept)
    spoken.speak(run, 0, spoken.codes.shape[1])
    voice = kept.nbytes[0]
    run.stash(0)
    begin(run, 0, prompt(short, 60, 5), 0)
    assert kept.nbytes[0] > voice
    reused, drawn = spoken.speak_second(run, 4)
    assert reused == spoken.reused
    assert kept.nbytes[0] == voice
    np.testing.assert_array_equal(drawn, fresh)
    run.stash(4)
    run.forget(Prompt(spoken.first.columns[:, :30], 30), range(SLOTS))
    assert kept.nbytes[0] == 0  # including what was spoken in that voice


def test_spoken_frames_are_prefilled_again_with_static_shapes(short: DualAR, spoken: TwoTurns) -> None:
    run = runner(short, capture=FakeGraphCapture())
    begin(run, 0, spoken.second, 0)
    fresh = runner(short)
    begin(fresh, 0, spoken.second, 0)
    end = spoken.second.columns.shape[1] - 1
    both = (each._slots.cache.buffer[:, :, 0, :, :end] for each in (run, fresh))
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)
    run.stash(0)
    assert run._slots._prefixes.nbytes == (fresh._slots._prefixes.nbytes[0], 0)  # only the voice


@pytest.mark.parametrize("capture", [None, FakeGraphCapture()], ids=["reduced precision", "static shapes"])
def test_spoken_frames_are_not_prefilled_again_where_rounding_may_differ(
    spoken: TwoTurns, capture: FakeGraphCapture | None
) -> None:
    model = load_short(dtype=torch.bfloat16) if capture is None else load_short()
    run = runner(model, capture=capture)
    begin(run, 0, spoken.first, 0)
    run.append_generated(0, spoken.codes)
    assert begin(run, 0, spoken.second, 0) == spoken.reused
    again = Prompt(spoken.second.columns[:, :-3], spoken.second.shared, spoken.second.generated_ranges)
    assert begin(run, 0, again, 0) == again.columns.shape[1] - 1


@pytest.mark.parametrize("mode", ["frame", "fast"])
def test_capture_on_a_full_device_does_not_end_the_thread(
    short: DualAR, mode: GraphMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(short, capture=ShortOfMemory(1), mode=mode)
    fill_device(monkeypatch)
    assert run.capture_next()
    assert "out of memory" in run.graph_state


@pytest.mark.parametrize("mode", ["frame", "off"])
def test_deterministic_steps_run_each_slot_alone(
    short: DualAR, exact: list[Codes], mode: GraphMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shapes do not depend on other requests, so the codes are the same on any device."""
    rows: set[int] = set()
    for stack in (short.slow, short.fast):
        usual = stack.run
        monkeypatch.setattr(stack, "run", lambda x, view=None, usual=usual: rows.add(len(x)) or usual(x, view))
    run = runner(short, capture=TorchScriptCapture(), mode=mode, deterministic=True)
    capture_all(run)
    prompts = [prompt(short, length, length) for length in LENGTHS]
    for drawn, expected in zip(run_together(run, prompts), exact, strict=True):
        np.testing.assert_array_equal(drawn, expected)
    assert rows == {1}
    assert run.graph_state == ("off" if mode == "off" else "fast")


def test_slot_reuses_only_equal_prefill_chunks(short: DualAR) -> None:
    """Chunks are aligned to the shared prefix: another length of it changes the chunks after it."""
    columns = prompt(short, 400, 5).columns
    run = runner(short)
    for before, shared, reused in ((0, 0, 399), (200, 200, 399), (200, 150, 128), (0, 150, 128), (300, 200, 128)):
        run._slots._prefixes.clear()
        begin(run, 0, Prompt(torch.ones_like(columns)), 0)
        begin(run, 0, Prompt(columns, before), 0)
        run._slots._prefixes.clear()
        assert begin(run, 0, Prompt(columns, shared), 0) == reused
        fresh = runner(short)
        begin(fresh, 0, Prompt(columns, shared), 0)
        both = (each._slots.cache.buffer[:, :, 0, :, :399] for each in (run, fresh))
        assert torch.equal(*both)


def test_prompts_enter_a_slot_without_waiting_for_the_device() -> None:
    """The meta device stands for a GPU, on which frames are running."""

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            tensors = [each for each in (*args, made) if isinstance(each, torch.Tensor)]
            if len({each.device for each in tensors}) > 1:
                copied.append(bool((kwargs or {}).get("non_blocking") or (len(args) > 2 and args[2])))
            return made

    copied: list[bool] = []
    slow = load_short().slow.to("meta")
    slots = SlotPool(slow, 2, 300, PrefixCache(torch.device("cpu"), 0, 0), pads_prefill=True)
    columns = torch.zeros(slow.column_rows, 40, dtype=torch.long)
    with Copies():  # type: ignore[no-untyped-call]
        for slot in range(2):
            slots.begin(slot, Prompt(columns), SamplingOptions(), key=1)
        slots.prefill([slots.next_chunk(slot) for slot in range(2)])
    assert len(copied) >= 2 * len(fields(DecodeState)) + 3
    assert all(copied)


@pytest.mark.gpu
@pytest.mark.parametrize("captured", [False, True])
def test_prompts_and_frames_never_wait_for_the_gpu(captured: bool) -> None:
    from engine.serving.runner.graphs import CudaGraphCapture

    device = torch.device("cuda:0")
    model = load_dual_ar(MINIATURE, dtype=torch.bfloat16, device=device)
    capture = CudaGraphCapture(device) if captured else None
    run = runner(model, prefixes=PrefixCache(device, 1 << 26, 1 << 26), capture=capture, mode="frame")
    capture_all(run)
    for _ in range(2):  # libraries are loaded in the first round
        begin(run, 0, prompt(model, 30, 1, shared=20), 0)
        run.step([0]).frames()
        try:
            torch.cuda.set_sync_debug_mode("error")
            run.begin(1, prompt(model, 40, 2), options(0), key=1)
            run.begin(2, prompt(model, 50, 3, shared=20), options(1), key=2)
            run.prefill([1, 2])
            pending = run.step([0])
        finally:
            torch.cuda.set_sync_debug_mode("default")
        pending.frames()
