"""Concurrent codec streams: each decodes as it would alone, and every callback is called."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.codec.codec import CodecDecoder, DecoderState
from engine.codec.postfilter import Postfilter, PostfilterStream
from engine.errors import EngineClosed, InvalidCodes
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.serving import batch_decoder, codec_worker
from engine.serving.batch_decoder import FRAMES_AT_ONCE, GRAPH_FRAMES, BatchDecoder, decoding_bytes
from engine.serving.codec_worker import CodecStream, CodecWorker, Samples
from engine.serving.runner.graphs import GraphCapture, Replay
from tests.engine.serving.graph_capture import FailingGraphCapture, FakeGraphCapture, ShortOfMemory, fill_device
from tests.paths import MINIATURE
from tests.support.waiting import until

WAIT = 60.0  # seconds until a thread counts as hanging
# Convolutions sum in another order for other lengths or numbers of rows, so last bits of fp32 differ. 1e-5 is a third
# of a step of 16-bit audio; any error of the state causes differences a thousand times as large.
TOLERANCE = 1e-5
CODEBOOKS, ENTRIES = 10, 64

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    return load_codec_decoder(*codec_files(MINIATURE))


class RecordingDecoder(CodecDecoder):
    """A decoder that records its batches and has a gate before each."""

    def __init__(self, decoder: CodecDecoder) -> None:
        nn.Module.__init__(self)
        self.config, self.quantizer, self.decoder = decoder.config, decoder.quantizer, decoder.decoder
        self.batches: list[tuple[int, int]] = []  # rows, frames
        self.failing: dict[int, Exception] = {}  # errors to raise once, by the frames of a batch
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()

    def decode_step(self, codes: Tensor, state: DecoderState) -> Tensor:
        self.entered.set()
        assert self.gate.wait(WAIT)
        self.batches.append((codes.shape[0], codes.shape[2]))
        if error := self.failing.pop(codes.shape[2], None):
            raise error
        return super().decode_step(codes, state)

    @contextmanager
    def keep_busy(self, worker: CodecWorker, take: "Take | None" = None, piece: int = 0) -> Iterator["Take"]:
        """Keep the worker busy with a piece, by default of a new stream, so that later messages arrive together."""
        self.gate.clear()
        self.entered.clear()
        busy = take or Take([1])
        try:
            busy.submit(worker, piece)
            if take is None:
                worker.end(busy.stream)
            assert self.entered.wait(WAIT)
            yield busy
        finally:
            self.gate.set()


@pytest.fixture
def recording(decoder: CodecDecoder) -> RecordingDecoder:
    return RecordingDecoder(decoder)


class Take:
    """A stream, its random codes in pieces of the given sizes, and the results that its callback receives.

    journal: records each delivery, in common with other takes.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        seed: int = 0,
        follows: "Take | None" = None,
        journal: "list[Take] | None" = None,
    ) -> None:
        self.stream: CodecStream = CodecStream(None if follows is None else follows.stream)
        self.codes = np.random.default_rng(seed).integers(0, ENTRIES, (CODEBOOKS, sum(sizes)))
        self.pieces = np.split(self.codes, np.cumsum(sizes)[:-1], axis=1)
        self.got: SimpleQueue[Samples | Exception] = SimpleQueue()
        self._journal = [] if journal is None else journal

    def deliver(self, samples: Samples | Exception) -> None:
        self._journal.append(self)
        self.got.put(samples)

    def submit(self, worker: CodecWorker, piece: int = 0) -> None:
        worker.submit(self.stream, self.pieces[piece], self.deliver)

    def submit_all(self, worker: CodecWorker, *, end: bool = True) -> None:
        for piece in range(len(self.pieces)):
            self.submit(worker, piece)
        if end:
            worker.end(self.stream)

    def next(self) -> Samples | Exception:
        return self.got.get(timeout=WAIT)

    def audio(self) -> Samples:
        """Return the audio of all pieces, and assert that each is as long as its codes."""
        heard: list[Any] = [self.next() for _ in self.pieces]
        for samples, piece in zip(heard, self.pieces, strict=True):
            if isinstance(samples, Exception):
                raise samples
            assert samples.dtype == np.float32
            assert samples.shape == (piece.shape[1] * 2048,)
        return np.concatenate(heard)


@contextmanager
def running_worker(
    decoder: CodecDecoder, rows: int = 4, capture: GraphCapture | None = None, postfilter: Postfilter | None = None
) -> Iterator[CodecWorker]:
    device = next(decoder.parameters()).device
    worker = CodecWorker(decoder, rows, device, capture, postfilter=postfilter)
    try:
        yield worker
    finally:
        worker.close()


def decode_whole(decoder: CodecDecoder, *codes: NDArray[np.int64]) -> Samples:
    """Decode all codes at once."""
    joined = torch.from_numpy(np.concatenate(codes, axis=1)).to(next(decoder.parameters()).device)
    samples: Samples = decoder.decode(joined[None])[0, 0].cpu().numpy()
    return samples


def assert_close(got: Samples, expected: Samples, tolerance: float = TOLERANCE) -> None:
    assert np.abs(expected).max() > 1000 * tolerance  # the audio must not be silent
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def assert_decoded(take: Take, decoder: CodecDecoder) -> None:
    assert_close(take.audio(), decode_whole(decoder, take.codes))


def test_pieces_are_decoded_in_order(recording: RecordingDecoder) -> None:
    take = Take([3, 1, 4, 1, 5])
    with running_worker(recording) as worker:
        take.submit_all(worker)
        assert_decoded(take, recording)
    assert recording.batches == [(1, frames) for frames in (3, 1, 4, 1, 5)]


def test_first_batch_of_each_size_runs_in_limited_memory(
    recording: RecordingDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a listener and for a capture alike, in the thread that decodes: PyTorch keeps cuDNN's choices for each thread
    and shape."""
    limited: list[tuple[int, str]] = []

    def run(device: torch.device, needed: int, work: Callable[[], Tensor]) -> Tensor:
        limited.append((needed, threading.current_thread().name))
        return work()

    monkeypatch.setattr(batch_decoder, "run_in_limited_memory", run)
    take, needed = Take([4, 4, 2, 4]), decoding_bytes(recording.config, recording.init_state(1).nbytes(), 1)
    with running_worker(recording, rows=1) as worker:
        take.submit_all(worker)
        assert_decoded(take, recording)
    assert recording.batches == [(1, 4), (1, 4), (1, 2), (1, 4)]
    assert limited == [(needed, "reprise-decoding")] * 2
    limited.clear()
    capture = FakeGraphCapture()
    with running_worker(recording, rows=1, capture=capture):
        until(lambda: len(limited) == len(GRAPH_FRAMES))
    assert len(recording.batches) - 4 >= len(GRAPH_FRAMES)


@settings(deadline=None, max_examples=4)
@given(cut=st.lists(st.integers(1, 17), min_size=1, max_size=5), seed=st.integers(0, 2**16))
def test_stream_in_any_pieces_equals_whole_decode(decoder: CodecDecoder, cut: list[int], seed: int) -> None:
    take = Take(cut, seed=seed)
    with running_worker(decoder) as worker:
        take.submit_all(worker)
        assert_decoded(take, decoder)


@settings(deadline=None, max_examples=4)
@given(cuts=st.lists(sizes, min_size=2, max_size=5), rows=st.integers(1, 4), chance=st.randoms(use_true_random=False))
def test_concurrent_streams_equal_single_ones(
    decoder: CodecDecoder, cuts: list[list[int]], rows: int, chance: random.Random
) -> None:
    """This holds for any order of pieces and any number of streams per row."""
    takes = [Take(cut, seed=i) for i, cut in enumerate(cuts)]
    order = [take for take in takes for _ in take.pieces]
    chance.shuffle(order)
    submitted: Counter[Take] = Counter()
    with running_worker(decoder, rows) as worker:
        for take in order:
            take.submit(worker, submitted[take])
            submitted[take] += 1
            if submitted[take] == len(take.pieces):
                worker.end(take.stream)
        for take in takes:
            assert_decoded(take, decoder)


@settings(deadline=None, max_examples=4)
@given(cuts=st.lists(sizes, min_size=2, max_size=4), rows=st.integers(1, 3), backwards=st.booleans())
def test_stream_continues_from_its_previous_stream(
    decoder: CodecDecoder, cuts: list[list[int]], rows: int, backwards: bool
) -> None:
    """This holds even if it is submitted before the previous stream has begun."""
    takes: list[Take] = []
    for i, cut in enumerate(cuts):
        takes.append(Take(cut, seed=i, follows=takes[-1] if takes else None))
    with running_worker(decoder, rows) as worker:
        for take in reversed(takes) if backwards else takes:
            take.submit_all(worker)
        audio = np.concatenate([take.audio() for take in takes])
    assert_close(audio, decode_whole(decoder, *(take.codes for take in takes)))


def test_stream_may_continue_a_finished_stream(decoder: CodecDecoder) -> None:
    first, other = Take([7, 2]), Take([5], seed=1)
    second, twin = Take([3, 8], seed=2, follows=first), Take([6], seed=3, follows=first)
    with running_worker(decoder, rows=1) as worker:
        for take in (first, other):
            take.submit_all(worker)
            assert_decoded(take, decoder)
        for take in (second, twin):  # both continue the first, neither the other
            take.submit_all(worker)
        for take in (second, twin):
            expected = decode_whole(decoder, first.codes, take.codes)
            assert_close(take.audio(), expected[9 * 2048 :])


def test_stream_waits_for_the_end_of_its_previous_stream(decoder: CodecDecoder) -> None:
    first, other = Take([4, 4]), Take([2], seed=2)
    second = Take([4], seed=1, follows=first)
    with running_worker(decoder) as worker:
        first.submit(worker, 0)
        second.submit_all(worker)
        other.submit_all(worker)
        assert_decoded(other, decoder)
        first.next()
        assert second.got.empty()  # the first stream has not ended
        first.submit(worker, 1)
        worker.end(first.stream)
        first.next()
        assert_close(second.audio(), decode_whole(decoder, first.codes, second.codes)[8 * 2048 :])


def test_stream_waits_for_the_audio_before_it_without_its_state(decoder: CodecDecoder) -> None:
    """Turns of two speakers are decoded after different clips."""
    journal: list[Take] = []
    first, second = Take([4, 4], journal=journal), Take([4], seed=1, journal=journal)
    second.stream = CodecStream(plays_after=first.stream)
    with running_worker(decoder) as worker:
        first.submit(worker, 0)
        second.submit_all(worker)
        first.next()
        first.submit(worker, 1)
        worker.end(first.stream)
        first.next()
        assert_close(second.audio(), decode_whole(decoder, second.codes))
        assert journal == [first, first, second]
        until(lambda: second.stream.plays_after is None)


def test_empty_stream_passes_its_state_on(decoder: CodecDecoder) -> None:
    first = Take([6])
    empty = CodecStream(first.stream)
    last = Take([5], seed=1)
    last.stream = CodecStream(empty)
    with running_worker(decoder, rows=1) as worker:
        worker.end(empty)
        last.submit_all(worker)
        first.submit_all(worker)
        assert_close(np.concatenate((first.audio(), last.audio())), decode_whole(decoder, first.codes, last.codes))


def test_codes_of_a_voice_are_decoded_once_for_its_takes(
    recording: RecordingDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to `CONTEXTS_KEPT` voices are cached, except forgotten ones."""
    monkeypatch.setattr(codec_worker, "CONTEXTS_KEPT", 2)
    contexts = [np.random.default_rng(seed).integers(0, ENTRIES, (CODEBOOKS, 20)) for seed in range(3)]
    with running_worker(recording) as worker:

        def speak(voice: int) -> int:
            """Speak in a voice. Return the number of batches that its codes took."""
            recording.batches.clear()
            take = Take([5], seed=1)
            take.stream = CodecStream(worker.context_stream(contexts[voice]))
            take.submit_all(worker)
            assert_close(take.audio(), decode_whole(recording, contexts[voice], take.codes)[20 * 2048 :])
            return len(recording.batches) - 1

        assert [speak(0), speak(0)] == [2, 0]
        worker.forget(contexts[0])
        assert [speak(0), speak(0)] == [2, 0]
        for voice in range(1, len(contexts)):
            assert speak(voice) == 2
        assert speak(len(contexts) - 1) == 0
        assert speak(0) == 2


def test_failed_voice_context_is_decoded_again(recording: RecordingDecoder) -> None:
    codes = np.random.default_rng(0).integers(0, ENTRIES, (CODEBOOKS, 7))
    first, second = Take([5]), Take([5])
    with running_worker(recording) as worker:
        recording.failing[7] = RuntimeError("No memory.")
        first.stream = CodecStream(worker.context_stream(codes))
        first.submit_all(worker)
        assert isinstance(first.next(), RuntimeError)
        second.stream = CodecStream(worker.context_stream(codes))
        second.submit_all(worker)
        assert_close(second.audio(), decode_whole(recording, codes, second.codes)[7 * 2048 :])


def test_finished_stream_releases_its_previous_streams(decoder: CodecDecoder) -> None:
    first = Take([2])
    second = Take([2], seed=1, follows=first)
    with running_worker(decoder) as worker:
        for take in (first, second):
            take.submit_all(worker)
        until(lambda: second.stream.previous is None)
        assert second.stream.final_state is not None


def test_more_streams_than_rows_all_finish(decoder: CodecDecoder) -> None:
    takes = [Take([2, 3], seed=i) for i in range(6)]
    with running_worker(decoder, rows=2) as worker:
        for take in takes:
            take.submit_all(worker)
        for take in takes:
            assert_decoded(take, decoder)


def test_row_is_held_between_pieces_and_freed_at_the_end(decoder: CodecDecoder) -> None:
    first, second = Take([4, 4]), Take([4], seed=1)
    with running_worker(decoder, rows=1) as worker:
        first.submit(worker, 0)
        first.next()
        second.submit_all(worker)
        first.submit(worker, 1)
        first.next()
        assert second.got.empty()
        worker.end(first.stream)
        assert_decoded(second, decoder)


def test_dropped_stream_delivers_nothing_and_frees_its_row(recording: RecordingDecoder) -> None:
    dropped, waiting, late = Take([4, 4, 4]), Take([4, 2], seed=1), Take([3], seed=2)
    with running_worker(recording, rows=1) as worker:
        dropped.submit(worker, 0)
        dropped.next()
        with recording.keep_busy(worker, dropped, 1):
            dropped.submit(worker, 2)
            waiting.submit_all(worker)
            worker.drop(dropped.stream)
        assert_decoded(waiting, recording)
        heard = dropped.got.qsize()
        dropped.submit_all(worker)  # the stream is no longer known
        worker.drop(dropped.stream)
        late.submit_all(worker)
        assert_decoded(late, recording)
    assert heard <= 1  # the piece being decoded
    assert dropped.got.qsize() == heard
    assert recording.batches == [(1, 4), (1, 4), (1, 4), (1, 2), (1, 3)]


def test_codes_that_cannot_be_submitted_keep_no_row(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    codes, late = np.zeros((CODEBOOKS, 20), np.int64), Take([2])  # codes of two chunks
    with running_worker(decoder, rows=1) as worker:
        submit = worker.submit

        def fails(stream: CodecStream, part: NDArray[np.int64], deliver: codec_worker.Deliver) -> None:
            if part.shape[1] < 16:
                raise MemoryError
            submit(stream, part, deliver)

        with monkeypatch.context() as patch:
            patch.setattr(worker, "submit", fails)
            with pytest.raises(MemoryError):
                worker.decode(codes)
        late.submit_all(worker)
        assert_decoded(late, decoder)


def test_streams_are_dropped_in_any_state(recording: RecordingDecoder) -> None:
    """States: idle with a row, waiting for a row, waiting for another stream, and not yet submitted."""
    idle, rowless, unknown = Take([2]), Take([2], seed=1), Take([2], seed=2)
    follower, late = Take([2], seed=3, follows=rowless), Take([5], seed=4)
    with running_worker(recording, rows=1) as worker:
        idle.submit(worker)
        assert_decoded(idle, recording)
        with recording.keep_busy(worker, idle):
            for take in (rowless, follower):
                take.submit_all(worker)
            for take in (unknown, follower, rowless, idle):
                worker.drop(take.stream)
            unknown.submit_all(worker)
            late.submit_all(worker)
        assert_decoded(late, recording)
        idle.next()
        until(lambda: follower.stream.finished)
    assert all(take.got.empty() for take in (idle, rowless, unknown, follower))
    assert recording.batches == [(1, 2), (1, 2), (1, 5)]


def test_stream_continues_from_decoded_part_of_a_dropped_one(recording: RecordingDecoder) -> None:
    dropped = Take([4, 4])
    follower = Take([3], seed=1, follows=dropped)
    with running_worker(recording) as worker:
        follower.submit_all(worker)
        with recording.keep_busy(worker):
            dropped.submit(worker, 0)
        dropped.next()
        worker.drop(dropped.stream)
        assert_close(follower.audio(), decode_whole(recording, dropped.pieces[0], follower.codes)[4 * 2048 :])


def test_pieces_of_equal_length_are_batched(recording: RecordingDecoder) -> None:
    takes = [Take([frames], seed=frames + i) for frames in (3, 4, 2) for i in range(3)]
    with running_worker(recording, rows=9) as worker:
        with recording.keep_busy(worker):
            for take in takes:
                take.submit_all(worker)
        for take in takes:
            assert_decoded(take, recording)
    assert recording.batches == [(1, 1), (3, 3), (3, 4), (3, 2)]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> int:
    """The most frames of a batch, fewer than in use."""
    monkeypatch.setattr(batch_decoder, "FRAMES_AT_ONCE", 16)
    return 16


@pytest.mark.parametrize("frames", [2, 3, 8, 16, 18])
def test_batches_are_limited_in_frames(recording: RecordingDecoder, small_batches: int, frames: int) -> None:
    """A piece above the limit is decoded alone."""
    most = max(1, small_batches // frames)
    takes = [Take([frames], seed=i) for i in range(most + 2)]
    with running_worker(recording, rows=most + 2) as worker:
        with recording.keep_busy(worker):
            for take in takes:
                take.submit_all(worker)
        for take in takes:
            assert_decoded(take, recording)
    assert recording.batches[1] == (most, frames)
    assert sum(rows for rows, _ in recording.batches[1:]) == most + 2
    assert all(rows <= most for rows, _ in recording.batches)


def test_parts_of_longer_pieces_are_batched(recording: RecordingDecoder) -> None:
    """Graphs have a few lengths, and longer pieces are decoded in parts of these lengths."""
    takes = [Take([frames], seed=frames) for frames in (24, 16, 20)]
    with running_worker(recording, capture=FailingGraphCapture()) as worker:
        with recording.keep_busy(worker):
            for take in takes:
                take.submit_all(worker)
        for take in takes:
            assert_decoded(take, recording)
    assert recording.batches == [(1, 1), (3, 16), (1, 8), (1, 4)]


def test_least_recently_served_stream_goes_first(recording: RecordingDecoder) -> None:
    journal: list[Take] = []
    takes = [Take([frames] * 3, seed=frames, journal=journal) for frames in (1, 3, 2)]
    with running_worker(recording) as worker:
        with recording.keep_busy(worker):
            for take in takes:
                take.submit_all(worker)
        for take in takes:
            assert_decoded(take, recording)
    assert journal == takes * 3


def test_equal_streams_advance_evenly(recording: RecordingDecoder, small_batches: int) -> None:
    """More pieces of one length are waiting than fit a batch."""
    journal: list[Take] = []
    most = small_batches // 4
    takes = [Take([4] * 4, seed=i, journal=journal) for i in range(most + 2)]
    with running_worker(recording, rows=len(takes)) as worker:
        with recording.keep_busy(worker):
            for take in takes:
                take.submit_all(worker)
        for take in takes:
            assert_decoded(take, recording)
    for delivered in range(len(journal)):
        counts = Counter(journal[:delivered])
        assert max(counts[take] for take in takes) - min(counts[take] for take in takes) <= 1


def test_failed_batch_fails_only_its_pieces(recording: RecordingDecoder) -> None:
    failing, other, late = [Take([4, 2], seed=i) for i in range(2)], Take([8, 2], seed=2), Take([4], seed=3)
    recording.failing[4] = error = RuntimeError("no memory")
    with running_worker(recording, rows=3) as worker:
        with recording.keep_busy(worker):
            for take in (*failing, other):
                take.submit_all(worker)
        for take in failing:
            assert take.next() is error
            samples = take.next()
            assert isinstance(samples, np.ndarray)
            assert samples.shape == (2 * 2048,)
        assert_decoded(other, recording)
        late.submit_all(worker)
        assert_decoded(late, recording)


def test_invalid_codes_fail_only_their_stream(decoder: CodecDecoder) -> None:
    wrong, fine = Take([4]), Take([4, 4], seed=1)
    wrong.pieces = [wrong.codes[:-1]]
    with running_worker(decoder) as worker:
        wrong.submit_all(worker)
        assert isinstance(wrong.next(), InvalidCodes)
        fine.submit_all(worker)
        assert_decoded(fine, decoder)


def test_error_that_stops_the_thread_reaches_all_waiting_streams(recording: RecordingDecoder) -> None:
    error = ZeroDivisionError("unexpected error")

    def broken(*_: object) -> None:
        raise error

    begun = Take([4, 4])
    waiting = [Take([2, 2], seed=1), Take([8], seed=2, follows=begun), Take([3, 3], seed=3)]
    with running_worker(recording, rows=2) as worker:
        begun.submit(worker, 0)
        first_samples = begun.next()
        with recording.keep_busy(worker, begun, 1):
            worker._next_batch = broken  # type: ignore[assignment, method-assign]
            for take in waiting:
                take.submit_all(worker)
        assert isinstance(first_samples, np.ndarray)
        assert isinstance(begun.next(), np.ndarray)
        for take in waiting:
            assert [take.next() for _ in take.pieces] == [error] * len(take.pieces)
        late = Take([1])
        late.submit_all(worker)
        assert isinstance(late.next(), EngineClosed)


def test_error_in_a_message_reaches_the_streams_of_the_others(recording: RecordingDecoder) -> None:
    error, takes = ZeroDivisionError("unexpected error"), [Take([2]), Take([4], seed=1)]

    def broken(frames: int) -> list[int]:
        raise error

    with running_worker(recording) as worker:
        with recording.keep_busy(worker):
            worker._batches.part_lengths = broken  # type: ignore[method-assign]
            for take in takes:
                take.submit_all(worker)
        assert [take.next() for take in takes] == [error] * len(takes)


def fail_once(function: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """Return a wrapper of `function` that raises `error` on its first call."""
    left = [error]

    def failing(*args: Any) -> Any:
        if left:
            raise left.pop()
        return function(*args)

    return failing


@pytest.mark.parametrize("step", ["load", "save"])
def test_failed_state_move_fails_only_its_take(recording: RecordingDecoder, step: str) -> None:
    """Streams that continue the take fail too, and its row is freed."""
    error = RuntimeError("no memory")
    first = Take([4])
    second = Take([4, 2], seed=1, follows=first)
    third = Take([2], seed=2, follows=second)
    others = [Take([8, 2], seed=3), Take([4], seed=4)]
    with running_worker(recording, rows=1) as worker:
        moved = fail_once(getattr(worker._batches, step), error)
        if step == "save":
            worker._batches.save = moved  # type: ignore[method-assign]
        first.submit_all(worker)
        assert_decoded(first, recording)
        until(lambda: first.stream.finished)
        if step == "load":
            worker._batches.load = moved  # type: ignore[method-assign]
        second.submit(worker, 0)
        assert second.next() is error
        second.submit(worker, 1)
        assert second.next() is error
        worker.end(second.stream)
        third.submit_all(worker)
        assert third.next() is error
        for take in others:
            take.submit_all(worker)
            assert_decoded(take, recording)


def test_failing_callback_does_not_block_other_streams(recording: RecordingDecoder) -> None:
    """Other streams are in the same batch, in another batch, and waiting."""
    error = ZeroDivisionError("error of a callback")

    def broken(_: object) -> None:
        raise error

    others = [Take([4, 4], seed=i) for i in range(3)] + [Take([8], seed=3)]
    with running_worker(recording, rows=5) as worker:
        with recording.keep_busy(worker):
            worker.submit(CodecStream(), others[0].pieces[0], broken)
            for take in others:
                take.submit_all(worker)
        for take in others:
            for _ in take.pieces:
                take.next()  # samples or an error


def test_chunk_whose_last_part_cannot_be_delivered_receives_the_error() -> None:
    heard: list[Samples | Exception] = []
    deliver = fail_once(heard.append, MemoryError())
    joined = codec_worker._PartsJoined(deliver, 2)
    parts, error = [np.ones(2, np.float32), np.zeros(2, np.float32)], ZeroDivisionError()
    joined(parts[0])
    with pytest.raises(MemoryError):
        joined(parts[1])
    joined(error)
    joined(error)
    assert heard == [error]


def test_close_fails_all_waiting_streams(recording: RecordingDecoder) -> None:
    going, rowless = Take([4, 4]), Take([2], seed=1)
    follower = Take([2], seed=2, follows=going)
    with running_worker(recording, rows=1) as worker:
        closing = threading.Thread(target=worker.close, daemon=True)
        with recording.keep_busy(worker, going):
            going.submit(worker, 1)
            for take in (rowless, follower):
                take.submit_all(worker)
            closing.start()
            until(lambda: worker._inbox.closed)
        closing.join(WAIT)
        assert not closing.is_alive()
        assert not worker._thread.is_alive()
        assert isinstance(going.next(), np.ndarray)
        for take in (going, rowless, follower):
            assert isinstance(take.next(), EngineClosed)
        worker.close()  # idempotent
    assert recording.batches == [(1, 4)]


def test_closed_worker_rejects_pieces_immediately(decoder: CodecDecoder) -> None:
    with running_worker(decoder) as worker:
        pass
    take = Take([2, 2])
    take.submit_all(worker)
    assert [type(take.got.get_nowait()) for _ in range(2)] == [EngineClosed] * 2
    worker.drop(take.stream)


ROWS = 3


SHORT_FRAMES = (4, 1)


def batches(rows: int, lengths: Sequence[int] = GRAPH_FRAMES) -> int:
    """Count captures: powers of two, up to the smallest that holds all rows or the largest batch."""
    return sum((min(rows, FRAMES_AT_ONCE // frames) - 1).bit_length() + 1 for frames in lengths)


BATCHES, SHORT_BATCHES = batches(ROWS), batches(ROWS, SHORT_FRAMES)


@pytest.fixture
def short_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture only graphs of short chunks, since fake captures are slow."""
    monkeypatch.setattr(batch_decoder, "GRAPH_FRAMES", SHORT_FRAMES)


def assert_streams_decode(
    worker: CodecWorker,
    decoder: CodecDecoder,
    tolerance: float = TOLERANCE,
    captured: Sequence[int] = SHORT_FRAMES,
) -> None:
    """Assert that streams decode correctly: captured lengths and others, two of which continue other streams."""
    first = [Take(sorted(captured), seed=i) for i in range(3)] + [Take([7, 3], seed=i) for i in range(3, 5)]
    then = [Take([1, 2, 5], seed=6, follows=first[0]), Take([6], seed=7, follows=first[4])]
    for take in (*first, *then):
        take.submit_all(worker)
    for take in first:
        assert_close(take.audio(), expected(decoder, take), tolerance)
    for take, before in zip(then, (first[0], first[4]), strict=True):
        assert_close(take.audio(), expected(decoder, before, take), tolerance)


_EXPECTED: dict[bytes, Samples] = {}


def expected(decoder: CodecDecoder, *takes: Take) -> Samples:
    """Return the audio of the last take after the others, computed once for all tests."""
    key = b"|".join(take.codes.tobytes() for take in takes)
    if key not in _EXPECTED:
        before = sum(take.codes.shape[1] for take in takes[:-1])
        _EXPECTED[key] = decode_whole(decoder, *(take.codes for take in takes))[before * 2048 :]
    return _EXPECTED[key]


@pytest.mark.usefixtures("short_graphs")
def test_graphs_are_captured_in_advance_and_equal_exact_batches(recording: RecordingDecoder) -> None:
    graphs = FakeGraphCapture()
    with running_worker(recording, ROWS, graphs) as worker:
        until(lambda: graphs.captured == SHORT_BATCHES)
        ran = len(recording.batches)
        assert_streams_decode(worker, recording)
        assert graphs.captured == SHORT_BATCHES
        assert graphs.replayed > 0
    assert len(recording.batches) == ran  # only graphs ran


@pytest.mark.usefixtures("short_graphs")
def test_graph_replay_changes_only_its_own_rows(decoder: CodecDecoder) -> None:
    """A batch of four rows holds four streams first, then three of them."""
    takes, graphs, rows = [Take([4, 4], seed=i) for i in range(4)], FakeGraphCapture(), 5  # one is for `stopped_worker`
    with running_worker(decoder, rows, graphs) as worker:
        until(lambda: graphs.captured == batches(rows, SHORT_FRAMES))
        for piece, speaking in ((0, takes), (1, takes[:3]), (1, takes[3:])):
            before = graphs.replayed
            with stopped_worker(worker):
                for take in speaking:
                    take.submit(worker, piece)
            until(lambda speaking=speaking, piece=piece: all(take.got.qsize() == piece + 1 for take in speaking))  # type: ignore[misc]
            assert graphs.replayed == before + 2  # one replay for all, after that of the stopping stream
        for take in takes:
            assert_decoded(take, decoder)


@contextmanager
def stopped_worker(worker: CodecWorker) -> Iterator[None]:
    """Stop the worker in a callback, so that messages sent meanwhile arrive together."""
    stream, inside, gate = CodecStream(), threading.Event(), threading.Event()

    def deliver(_: object) -> None:
        inside.set()
        assert gate.wait(WAIT)

    worker.submit(stream, np.zeros((CODEBOOKS, 1), dtype=np.int64), deliver)
    worker.end(stream)
    try:
        assert inside.wait(WAIT)
        yield
    finally:
        gate.set()


def test_capture_on_a_full_device_does_not_end_the_thread(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = BatchDecoder(decoder, ROWS, torch.device("cpu"), ShortOfMemory(1), ROWS)
    fill_device(monkeypatch)
    assert batches.capture_next()
    assert batches.graph_failure


class GatedGraphCapture:
    """Graph capture that waits for its gate."""

    fixed_shapes = True

    def __init__(self) -> None:
        self.graphs = FakeGraphCapture()
        self.gate = threading.Event()

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        assert self.gate.wait(WAIT)
        return self.graphs.capture(function, *inputs)


@pytest.mark.usefixtures("short_graphs")
def test_early_take_waits_for_few_captures(decoder: CodecDecoder) -> None:
    capture, take = GatedGraphCapture(), Take([4])
    captured_before: list[int] = []

    def deliver(got: Samples | Exception) -> None:
        captured_before.append(capture.graphs.captured)
        take.deliver(got)

    with running_worker(decoder, ROWS, capture) as worker:
        worker.submit(take.stream, take.codes, deliver)
        capture.gate.set()
        assert_decoded(take, decoder)
        assert captured_before[0] <= 2 < SHORT_BATCHES
        assert_streams_decode(worker, decoder)
        until(lambda: capture.graphs.captured == SHORT_BATCHES)


@pytest.mark.usefixtures("short_graphs")
def test_nothing_is_captured_while_the_engine_has_turns(decoder: CodecDecoder) -> None:
    """A capture synchronizes the device, on which frames are generated."""
    capture, take = GatedGraphCapture(), Take([4, 3])
    with running_worker(decoder, ROWS, capture) as worker:
        worker.set_engine_idle(False)
        capture.gate.set()
        for piece in range(2):  # the worker is idle before and between the pieces
            take.submit(worker, piece)
            until(lambda piece=piece: take.got.qsize() > piece)  # type: ignore[misc]
        until(lambda: worker._inbox.empty)
        assert capture.graphs.captured <= 1  # the one that had begun
        worker.set_engine_idle(True)
        until(lambda: capture.graphs.captured == SHORT_BATCHES)
        assert_decoded(take, decoder)


@pytest.mark.usefixtures("short_graphs")
def test_failing_capture_is_logged_once(decoder: CodecDecoder, caplog: pytest.LogCaptureFixture) -> None:
    with running_worker(decoder, ROWS, FailingGraphCapture()) as worker:
        until(lambda: bool(caplog.records))
        assert_streams_decode(worker, decoder)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not permitted" in caplog.text


class LimitedGraphCapture:
    """Graph capture that fails after a number of captures."""

    fixed_shapes = True

    def __init__(self, limit: int) -> None:
        self.graphs, self._limit = FakeGraphCapture(), limit

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        if self.graphs.captured == self._limit:
            raise MemoryError("no room for another")
        return self.graphs.capture(function, *inputs)


@pytest.mark.usefixtures("short_graphs")
@pytest.mark.parametrize("limit", [1, SHORT_BATCHES - 1])
def test_capture_failing_later_is_logged_once(
    decoder: CodecDecoder, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    with running_worker(decoder, ROWS, LimitedGraphCapture(limit)) as worker:
        until(lambda: bool(caplog.records))
        assert_streams_decode(worker, decoder)
    assert len(caplog.records) == 1


class VoicedPostfilter(Postfilter):
    """Takes all audio for voiced, because that of random weights is not."""

    def analysed(self, x: Tensor, f0: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full_like(f0, 150.0), super().analysed(x, f0)[1]


@pytest.fixture(scope="module")
def postfilter() -> Postfilter:
    """Keeps two frames back."""
    return VoicedPostfilter(44_100, 2048)


def filtered(postfilter: Postfilter, audio: Samples, previous: PostfilterStream | None = None) -> Samples:
    stream = PostfilterStream(postfilter, previous)
    samples: Samples = torch.cat([stream.push(torch.from_numpy(audio)), stream.finish()]).numpy()
    assert not np.array_equal(samples, audio)
    return samples


def unfiltered(decoder: CodecDecoder, *takes: Take) -> list[Samples]:
    """Return the audio of takes that continue each other, decoded in the same pieces."""
    with running_worker(decoder) as worker:
        for take in takes:
            take.submit_all(worker)
        return [take.audio() for take in takes]


def worker_decoded(decoder: CodecDecoder, codes: NDArray[np.int64]) -> Samples:
    with running_worker(decoder) as worker:
        return worker.decode(codes)


def lengths(take: Take, count: int) -> list[int]:
    """Return the frames of the next deliveries."""
    return [len(samples) // 2048 if not isinstance(samples := take.next(), Exception) else -1 for _ in range(count)]


def test_postfilter_keeps_frames_back_until_later_ones_are_decoded(
    decoder: CodecDecoder, postfilter: Postfilter
) -> None:
    take = Take([1, 1, 4, 3])
    with running_worker(decoder, postfilter=postfilter) as worker:
        assert worker.lookahead == 2
        take.submit_all(worker)
        heard: list[Any] = [take.next() for _ in range(3)]
    assert [len(samples) // 2048 for samples in heard if isinstance(samples, np.ndarray)] == [4, 3, 2]
    (plain,) = unfiltered(decoder, Take([1, 1, 4, 3]))
    assert np.array_equal(np.concatenate(heard), filtered(postfilter, plain))


def test_error_at_any_line_of_the_thread_reaches_the_streams(decoder: CodecDecoder, postfilter: Postfilter) -> None:
    """All that have not been decoded by then. Such as a lack of memory."""
    names = ("_handle", "_ended", "_ready", "_next_batch", "_begin", "_finish", "_decode_batch")
    codes = [getattr(CodecWorker, name).__code__ for name in names]
    failed = set[str]()
    for code, line in dict.fromkeys((each, line) for each in codes for *_, line in each.co_lines()):

        def fail(frame: FrameType, event: str, _: object, code: CodeType = code, line: int = line) -> Any:
            if frame.f_code is not code:
                return None
            if event == "line" and frame.f_lineno == line:
                failed.add(code.co_name)
                raise MemoryError  # once: it ends the tracing of the thread
            return fail

        threading.settrace(fail)
        try:
            worker = CodecWorker(decoder, 2, torch.device("cpu"), postfilter=postfilter)
        finally:
            threading.settrace(None)
        first = Take([2])
        for take in (first, Take([1], seed=1, follows=first)):
            take.submit_all(worker)
            samples = 0
            while samples < take.codes.shape[1] * 2048 and not isinstance(heard := take.next(), Exception):
                samples += len(heard)
        worker.close()
    assert failed == set(names)


@pytest.mark.parametrize("frames", [1, 2, 3, 40])
def test_whole_codes_are_filtered(decoder: CodecDecoder, postfilter: Postfilter, frames: int) -> None:
    codes = np.random.default_rng(frames).integers(0, ENTRIES, (CODEBOOKS, frames))
    plain = worker_decoded(decoder, codes)
    with running_worker(decoder, postfilter=postfilter) as worker:
        assert np.array_equal(worker.decode(codes), filtered(postfilter, plain))


def test_audio_of_a_stream_is_adapted_to_its_speaker(decoder: CodecDecoder, postfilter: Postfilter) -> None:
    (plain,) = unfiltered(decoder, Take([24]))
    adaptation = postfilter.adaptation(torch.from_numpy(plain).flip(0), torch.from_numpy(plain))
    assert adaptation is not None
    take = Take([24])
    take.stream = CodecStream(adaptation=adaptation)
    with running_worker(decoder, postfilter=postfilter) as worker:
        take.submit_all(worker)
        heard: list[Any] = [take.next() for _ in range(2)]
        assert np.array_equal(worker.decode(take.codes, filtered=False), worker_decoded(decoder, take.codes))
    adapted = PostfilterStream(postfilter, adaptation=adaptation)
    expected = torch.cat([adapted.push(torch.from_numpy(plain)), adapted.finish()]).numpy()
    assert np.array_equal(np.concatenate(heard), expected)
    assert not np.array_equal(expected, filtered(postfilter, plain))


def test_filter_continues_with_the_codec(decoder: CodecDecoder, postfilter: Postfilter) -> None:
    """Also over a stream without audio."""
    first, second = Take([6]), Take([5], seed=1)
    empty = CodecStream(first.stream)
    second.stream = CodecStream(empty)
    with running_worker(decoder, postfilter=postfilter) as worker:
        worker.end(empty)
        for take in (first, second):
            take.submit_all(worker)
        heard: list[Any] = [second.next() for _ in range(2)]
    first, second = Take([6]), Take([5], seed=1)
    second.stream = CodecStream(first.stream)
    before, after = unfiltered(decoder, first, second)
    ended = PostfilterStream(postfilter)
    ended.push(torch.from_numpy(before))
    ended.finish()
    assert np.array_equal(np.concatenate(heard), filtered(postfilter, after, ended))


def test_error_of_a_filtered_stream_is_delivered_once(recording: RecordingDecoder, postfilter: Postfilter) -> None:
    take = Take([3, 4, 5])
    with running_worker(recording, postfilter=postfilter) as worker:
        recording.failing[5] = RuntimeError("No memory.")
        take.submit_all(worker)
        assert lengths(take, 3) == [1, 4, -1]
        until(lambda: take.stream.finished)
        assert take.got.empty()


@pytest.mark.parametrize("step", ["push", "finish"])
def test_error_of_a_filter_fails_only_its_stream(
    decoder: CodecDecoder, postfilter: Postfilter, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first, second = Take([3]), Take([3], seed=1)
    with running_worker(decoder, postfilter=postfilter) as worker:
        monkeypatch.setattr(PostfilterStream, step, fail_once(getattr(PostfilterStream, step), RuntimeError("Full.")))
        first.submit_all(worker)
        until(lambda: first.stream.finished)
        second.submit_all(worker)
        assert lengths(second, 2) == [1, 2]
        assert lengths(first, 1 if step == "push" else 2)[-1] == -1
        assert worker.is_running


def test_dropped_filtered_stream_delivers_nothing_more(recording: RecordingDecoder, postfilter: Postfilter) -> None:
    take = Take([4])
    with running_worker(recording, postfilter=postfilter) as worker:
        take.submit_all(worker, end=False)
        assert lengths(take, 1) == [2]
        worker.drop(take.stream)
        until(lambda: take.stream.finished)
        assert take.got.empty()


def test_closing_ends_a_filtered_stream(recording: RecordingDecoder, postfilter: Postfilter) -> None:
    take = Take([1])
    with running_worker(recording, postfilter=postfilter) as worker:
        take.submit_all(worker, end=False)
        until(lambda: take.stream.deliver_rest is not None)
    assert isinstance(take.next(), EngineClosed)
