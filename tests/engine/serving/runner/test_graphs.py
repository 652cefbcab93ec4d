"""Captured graphs: a replay computes with the current values of its inputs, like a new call."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import engine.serving.device
import engine.serving.runner.graphs
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.serving.batch_decoder import GRAPH_FRAMES
from engine.serving.codec_worker import CodecWorker
from engine.serving.runner.graphs import CapturedGraphs, CudaGraphCapture
from tests.engine.serving.graph_capture import (
    FailingGraphCapture,
    FakeGraphCapture,
    ShortOfMemory,
    fill,
    inputs,
    mixed_operations,
)
from tests.engine.serving.test_codec_worker import BATCHES, ROWS, assert_streams_decode
from tests.paths import MINIATURE
from tests.support.waiting import until

GIB = 1 << 30
HANG_SECONDS = 60.0  # seconds until a thread counts as hanging


def test_failed_capture_is_logged_once_and_disables_graphs(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.zeros(2)
    graphs = CapturedGraphs(FailingGraphCapture(), "fast")
    assert graphs.state == "fast"
    assert graphs.is_missing((1, 1))
    graphs.capture((1, 1), torch.neg, x)
    graphs.capture((2, 1), torch.neg, x)
    assert graphs.get((1, 1)) is None
    assert not graphs.is_missing((1, 1))
    assert graphs.state == ("off: they could not be captured (operation not permitted when stream is capturing)")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_failed_capture_of_one_size_keeps_graphs_of_others(caplog: pytest.LogCaptureFixture) -> None:
    class Small(FakeGraphCapture):
        def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], Tensor]:
            if len(inputs[0]) > 2:
                raise MemoryError("CUDA out of memory.\nTried to allocate 2 GiB.")
            return super().capture(function, *inputs)

    graphs = CapturedGraphs(Small(), "frame")
    for size in (8, 4, 2, 1):
        assert graphs.is_missing((size, 1))
        graphs.capture((size, 1), torch.neg, torch.ones(size))
        assert not graphs.is_missing((size, 1))
    assert graphs.get((8, 1)) is graphs.get((4, 1)) is None
    replay = graphs.get((2, 1))
    assert replay is not None
    assert replay().tolist() == [-1, -1]
    assert graphs.failure
    assert graphs.state == "frame, 2 of 4 sizes without (CUDA out of memory.)"
    assert len(caplog.records) == 1


def test_capture_that_lacked_memory_is_tried_once_more(caplog: pytest.LogCaptureFixture) -> None:
    for failing, state in ((1, "frame"), (2, "off: they could not be captured (CUDA out of memory.)")):
        caplog.clear()
        graphs = CapturedGraphs(ShortOfMemory(failing), "frame")
        graphs.capture((1, 1), torch.neg, torch.ones(1))
        assert graphs.failure
        assert not graphs.is_missing((1, 1)), "not before the engine is idle"
        assert graphs.retry()
        assert graphs.is_missing((1, 1))
        graphs.capture((1, 1), torch.neg, torch.ones(1))
        assert not graphs.is_missing((1, 1))
        assert not graphs.retry()
        assert graphs.state == state
        assert bool(graphs.failure) is (failing == 2)
        assert len(caplog.records) == 1


def test_capture_fails_for_lack_of_memory_behind_the_error_of_its_end() -> None:
    class EndFails(FakeGraphCapture):
        def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], Tensor]:
            try:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            finally:
                raise RuntimeError("operation failed due to a previous error during capture")

    graphs = CapturedGraphs(EndFails(), "frame")
    graphs.capture((1, 1), torch.neg, torch.ones(1))
    assert graphs.retry()


def test_capture_that_fails_otherwise_is_not_tried_again() -> None:
    graphs = CapturedGraphs(FailingGraphCapture(), "frame")
    graphs.capture((1, 1), torch.neg, torch.ones(1))
    assert not graphs.retry()


def test_no_graph_is_missing_without_capture() -> None:
    graphs = CapturedGraphs(None, "fast")
    assert graphs.state == "off"
    assert not graphs.is_missing((1, 1))
    assert graphs.get((1, 1)) is None


class FakeCuda:
    """Fake of the parts of `torch.cuda` that captures use. It runs nothing and counts captures."""

    def __init__(self) -> None:
        self.capturing = self.most = 0
        self.captures: list[tuple[Any, Any, str]] = []
        self.ended: list[tuple[int, object]] = []
        self.CUDAGraph = lambda: SimpleNamespace(replay=lambda: None)
        self.graph_pool_handle = object
        self.waited: list[object] = []  # the streams that the current one has waited for
        self._stream = SimpleNamespace(wait_stream=self.waited.append)
        self.fraction = 0.9
        self.limiting_threads: list[str] = []
        self.empty_cache = lambda: None

    def Stream(self, device: torch.device, priority: int) -> object:
        return SimpleNamespace(wait_stream=lambda other: None, device=device, priority=priority)

    def current_stream(self, *_: object) -> object:
        return self._stream

    def device(self, device: torch.device) -> AbstractContextManager[None]:
        return nullcontext()

    def stream(self, stream: object) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def graph(self, graph: object, *, pool: object, stream: object, capture_error_mode: str) -> Iterator[None]:
        self.captures.append((pool, stream, capture_error_mode))
        self.capturing += 1
        self.most = max(self.most, self.capturing)
        try:
            yield
        finally:
            self.capturing -= 1

    def _cuda_endAllocateToPool(self, device: int, pool: object) -> None:
        self.ended.append((device, pool))
        raise RuntimeError("endAllocatePool: not currently recording to mempool_id")


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    device = FakeCuda()
    for module in (engine.serving.device, engine.serving.runner.graphs):
        monkeypatch.setattr(module, "torch", SimpleNamespace(cuda=device, device=torch.device, _C=device))
    return device


def test_captures_share_stream_and_pool_in_thread_local_mode(fake_cuda: FakeCuda) -> None:
    graphs = CudaGraphCapture(torch.device("cuda:0"))
    calls: list[int] = []

    def record_capturing(x: Tensor) -> Tensor:
        calls.append(fake_cuda.capturing)
        return x

    for _ in range(3):
        graphs.capture(record_capturing, torch.zeros(1))
    assert calls == ([0] * CudaGraphCapture.WARM_UPS + [1]) * 3
    pool, stream, mode = fake_cuda.captures[0]
    assert all(capture[0] is pool and capture[1] is stream for capture in fake_cuda.captures)
    assert mode == "thread_local"


def test_failed_capture_ends_its_allocations_and_leaves_its_pool(fake_cuda: FakeCuda) -> None:
    """PyTorch 2.11 does not end them, and then refuses all further captures."""
    graphs = CudaGraphCapture(torch.device("cuda:1"))
    graphs.capture(torch.neg, torch.zeros(1))

    def broken(x: Tensor) -> Tensor:
        if fake_cuda.capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        return x

    with pytest.raises(RuntimeError, match="not permitted"):
        graphs.capture(broken, torch.zeros(1))
    graphs.capture(torch.neg, torch.zeros(1))
    before, failed, after = fake_cuda.captures
    assert before[:2] == failed[:2]
    assert fake_cuda.ended == [(1, failed[0])]
    assert after[0] is not failed[0]
    assert after[1] is not failed[1]


@pytest.mark.parametrize("failing", [0, 1, CudaGraphCapture.WARM_UPS])
def test_later_work_waits_for_a_failed_capture(failing: int, fake_cuda: FakeCuda) -> None:
    """Kernels of its first runs may still write to the state of the slots."""
    calls: list[int] = []

    def broken(x: Tensor) -> Tensor:
        calls.append(len(calls))
        if calls[-1] == failing:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return x

    graphs = CudaGraphCapture(torch.device("cuda:0"))
    used = graphs._stream
    with pytest.raises(torch.OutOfMemoryError):
        graphs.capture(broken, torch.zeros(1))
    assert fake_cuda.waited == [used]
    graphs.capture(torch.neg, torch.zeros(1))
    assert fake_cuda.waited == [used, graphs._stream]
    assert used is not graphs._stream


def test_failed_capture_says_why_even_if_the_device_is_lost(fake_cuda: FakeCuda) -> None:
    def lost(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def broken(x: Tensor) -> Tensor:
        fake_cuda._stream.wait_stream = lost
        raise ZeroDivisionError("in the model")

    with pytest.raises(ZeroDivisionError, match="in the model"):
        CudaGraphCapture(torch.device("cuda:0")).capture(broken, torch.zeros(1))


def test_urgent_graphs_are_captured_on_a_priority_stream(fake_cuda: FakeCuda) -> None:
    """In CUDA lower numbers have priority, and a graph's kernels have the priority of their capture stream."""
    for urgent in (True, False):
        CudaGraphCapture(torch.device("cuda:0"), urgent=urgent).capture(torch.neg, torch.zeros(1))
    priorities = [capture[1].priority for capture in fake_cuda.captures]
    assert priorities[0] < priorities[1] == 0


def test_captures_of_two_threads_are_serialised(fake_cuda: FakeCuda) -> None:
    """A capture begins by synchronizing the device, which fails while another thread captures."""
    first_is_in, second_is_in = threading.Event(), threading.Event()

    def first(x: Tensor) -> Tensor:
        if fake_cuda.capturing:
            first_is_in.set()
            second_is_in.wait(0.3)  # time for the other thread to capture, if it could
        return x

    def second(x: Tensor) -> Tensor:
        if fake_cuda.capturing > 1:
            second_is_in.set()
        return x

    def record(function: Callable[[Tensor], Tensor]) -> None:
        CudaGraphCapture(torch.device("cuda:0")).capture(function, torch.zeros(1))

    threads = [threading.Thread(target=record, args=(function,), daemon=True) for function in (first, second)]
    threads[0].start()
    assert first_is_in.wait(HANG_SECONDS)
    threads[1].start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert len(fake_cuda.captures) == 2
    assert fake_cuda.most == 1


@pytest.fixture
def cuda() -> str:
    """Return the device, which `prepared_gpu` has set up."""
    return "cuda:0"


def assert_close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
def test_graph_uses_current_input_values(cuda: str) -> None:
    held = inputs(0, cuda)
    replay = CudaGraphCapture(torch.device(cuda)).capture(mixed_operations, *held)
    place = replay().data_ptr()
    for seed in range(5):
        fill(held, inputs(seed, cuda))
        result = replay()
        assert result.data_ptr() == place
        assert_close(result, mixed_operations(*inputs(seed, cuda)))


@pytest.mark.gpu
def test_graph_replays_in_place_changes(cuda: str) -> None:
    """Models change their caches and states in place."""
    state, step = torch.zeros(4, device=cuda), torch.ones(4, device=cuda)

    def advance(step: Tensor) -> Tensor:
        return state.add_(step).clone()

    replay = CudaGraphCapture(torch.device(cuda)).capture(advance, step)
    state.zero_()  # the function ran during capture
    for total in (1, 2, 3):
        assert replay().tolist() == [total] * 4
    step.fill_(10)
    replay()
    assert state.tolist() == [13] * 4


@pytest.mark.gpu
def test_graphs_of_one_pool_do_not_affect_each_other(cuda: str) -> None:
    """Graphs are replayed in another order than captured, and each result is read before the next replay."""
    capture = CudaGraphCapture(torch.device(cuda))
    held = {rows: inputs(0, cuda, rows) for rows in (32, 8, 2, 1)}
    replays = {rows: capture.capture(mixed_operations, *held[rows]) for rows in held}
    for seed in range(4):
        for rows in held:
            fill(held[rows], inputs(seed, cuda, rows))
        results = {rows: replays[rows]().clone() for rows in sorted(held)}
        for rows, result in results.items():
            assert_close(result, mixed_operations(*inputs(seed, cuda, rows)))


@pytest.mark.gpu
def test_graphs_share_memory_for_intermediates(cuda: str) -> None:
    mebibyte, length = 1 << 20, 4096

    def large(x: Tensor) -> Tensor:
        return (x[:, None] * x[None]).tanh().sum(dim=1)  # two intermediates of 64 MiB

    x, capture, replays, reserved = torch.ones(length, device=cuda), CudaGraphCapture(torch.device(cuda)), [], []
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(4):
        replays.append(capture.capture(large, x))
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved() - before)
    assert reserved[0] >= 64 * mebibyte
    assert reserved[-1] - reserved[0] < 64 * mebibyte
    x.fill_(0.5)
    expected = large(x)
    for replay in replays:
        assert_close(replay(), expected)


def run_in_threads(*work: Callable[[], object]) -> None:
    """Run each function in its own thread. Raise the first error."""
    errors: list[Exception] = []

    def run(each: Callable[[], object]) -> None:
        try:
            each()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,), daemon=True) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def capture_many(cuda: str) -> None:
    """Capture many graphs on a stream of this thread, and check each."""
    capture, stream = CudaGraphCapture(torch.device(cuda)), torch.cuda.Stream(cuda)
    stream.wait_stream(torch.cuda.current_stream(cuda))
    with torch.inference_mode(), torch.cuda.stream(stream):
        for seed in range(20):
            held = inputs(seed, cuda, rows=1 + seed)
            replay = capture.capture(mixed_operations, *held)
            fill(held, inputs(seed + 100, cuda, rows=1 + seed))
            assert_close(replay(), mixed_operations(*held))


@pytest.mark.gpu
def test_capture_works_while_another_thread_uses_the_device(cuda: str) -> None:
    """The other thread allocates, copies to the host and synchronizes its stream, as the codec worker does."""
    over, rounds = threading.Event(), [0]

    def record() -> None:
        try:
            capture_many(cuda)
        finally:
            over.set()

    def use() -> None:
        stream = torch.cuda.Stream(cuda)
        with torch.inference_mode(), torch.cuda.stream(stream):
            while not over.is_set() or rounds[0] < 3:
                size = 64 + 16 * (rounds[0] % 50)
                x = torch.arange(size * size, device=cuda).reshape(size, size).remainder(7).float()
                assert torch.equal((x @ x).cpu(), x.cpu() @ x.cpu())
                stream.synchronize()
                rounds[0] += 1

    run_in_threads(record, use)
    assert rounds[0] >= 3


@pytest.mark.gpu
def test_two_threads_capture_concurrently(cuda: str) -> None:
    """The engine loop and the codec worker both capture when idle."""
    run_in_threads(lambda: capture_many(cuda), lambda: capture_many(cuda))


@pytest.mark.gpu
def test_failed_capture_leaves_the_device_usable(cuda: str) -> None:
    held = inputs(1, cuda)
    before = torch.cuda.current_stream(cuda)

    def reads(x: Tensor, *_: Tensor) -> Tensor:
        return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(RuntimeError):
        CudaGraphCapture(torch.device(cuda)).capture(reads, *held)
    assert torch.cuda.current_stream(cuda) == before
    torch.cuda.synchronize()
    assert_close(reads(torch.ones(3, device=cuda)), torch.full((3,), 2.0, device=cuda))
    replay = CudaGraphCapture(torch.device(cuda)).capture(mixed_operations, *held)
    fill(held, inputs(2, cuda))
    assert_close(replay(), mixed_operations(*inputs(2, cuda)))


@pytest.mark.gpu
def test_decoding_continues_after_a_failed_capture(cuda: str, caplog: pytest.LogCaptureFixture) -> None:
    """All captures of the codec fail."""

    class Fails(CudaGraphCapture):
        def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], Tensor]:
            return super().capture(lambda *given: function(*given).sum().cpu(), *inputs)

    device = torch.device(cuda)
    decoder = load_codec_decoder(*codec_files(MINIATURE), device=device)
    worker = CodecWorker(decoder, ROWS, device, Fails(device))
    try:
        assert_streams_decode(worker, decoder, tolerance=1e-4, captured=GRAPH_FRAMES)
    finally:
        worker.close()
    assert [record.levelno for record in caplog.records if record.name == "engine.serving.runner.graphs"] == [
        logging.WARNING
    ]


@pytest.mark.gpu
def test_audio_from_graphs_equals_exact_steps(cuda: str, caplog: pytest.LogCaptureFixture) -> None:
    """Graphs are captured while the worker is idle. Tolerance 1e-4, since kernels differ by shape."""

    class Counting(CudaGraphCapture):
        count = 0

        def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], Tensor]:
            self.count += 1
            return super().capture(function, *inputs)

    device = torch.device(cuda)
    decoder, capture = load_codec_decoder(*codec_files(MINIATURE), device=device), Counting(device)
    worker = CodecWorker(decoder, ROWS, device, capture)
    try:
        assert_streams_decode(worker, decoder, tolerance=1e-4, captured=GRAPH_FRAMES)
        until(lambda: capture.count == BATCHES)
        assert_streams_decode(worker, decoder, tolerance=1e-4, captured=GRAPH_FRAMES)
    finally:
        worker.close()
    assert capture.count == BATCHES
    assert not [record for record in caplog.records if record.name == "engine.serving.runner.graphs"]  # of a failure
