"""Many codec streams at once: each decodes as it would alone, and every callback is called."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.codec.codec import CodecDecoder, DecoderState
from engine.errors import EngineClosed, InvalidCodes
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.serving.codec_worker import CONTEXTS_KEPT, FRAMES_AT_ONCE, GRAPH_FRAMES, CodecStream, CodecWorker, Samples
from engine.serving.runner.graphs import GraphCapture, Replay
from tests.engine.graph_capture import FailingGraphCapture, FakeGraphCapture
from tests.paths import MINIATURE

WAIT = 60.0  # seconds after which something hangs
# Convolutions add up in another order for another length or number of rows: single bits of fp32 differ. 1e-5 is a
# third of a step of 16-bit sound, and a state that is wrong in anything is off by a thousand times as much.
TOLERANCE = 1e-5
CODEBOOKS, ENTRIES = 10, 64

sizes = st.lists(st.integers(1, 17), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    return load_codec_decoder(*codec_files(MINIATURE))


class Watched(CodecDecoder):
    """A decoder that records its batches and has a gate before each."""

    def __init__(self, decoder: CodecDecoder) -> None:
        nn.Module.__init__(self)
        self.config, self.quantizer, self.decoder = decoder.config, decoder.quantizer, decoder.decoder
        self.batches: list[tuple[int, int]] = []  # rows, frames
        self.failing: dict[int, Exception] = {}  # what happens once, by the frames of a batch
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
    def held(self, worker: CodecWorker, take: "Take | None" = None, piece: int = 0) -> Iterator["Take"]:
        """Keep the worker busy with this piece, by default of an own stream; afterwards it sees all that was sent."""
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
def watched(decoder: CodecDecoder) -> Watched:
    return Watched(decoder)


class Take:
    """A stream, its random codes in pieces of these sizes, and what its callback receives.

    journal: where every delivery is noted, with those of others.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        seed: int = 0,
        follows: "Take | None" = None,
        journal: "list[Take] | None" = None,
    ) -> None:
        self.stream = CodecStream(None if follows is None else follows.stream)
        self.codes = np.random.default_rng(seed).integers(0, ENTRIES, (CODEBOOKS, sum(sizes)))
        self.pieces = np.split(self.codes, np.cumsum(sizes)[:-1], axis=1)
        self.got: SimpleQueue[Samples | Exception] = SimpleQueue()
        self._journal = [] if journal is None else journal

    def deliver(self, samples: Samples | Exception) -> None:
        self._journal.append(self)
        self.got.put(samples)

    def submit(self, worker: CodecWorker, piece: int = 0) -> None:
        worker.submit(self.stream, self.pieces[piece], self.deliver)

    def say(self, worker: CodecWorker, *, end: bool = True) -> None:
        for piece in range(len(self.pieces)):
            self.submit(worker, piece)
        if end:
            worker.end(self.stream)

    def next(self) -> Samples | Exception:
        return self.got.get(timeout=WAIT)

    def audio(self) -> Samples:
        """The audio of all pieces; each must be as long as its codes."""
        heard = [self.next() for _ in self.pieces]
        for samples, piece in zip(heard, self.pieces, strict=True):
            if isinstance(samples, Exception):
                raise samples
            assert samples.dtype == np.float32
            assert samples.shape == (piece.shape[1] * 2048,)
        return np.concatenate(heard)


@contextmanager
def running(decoder: CodecDecoder, rows: int = 4, capture: GraphCapture | None = None) -> Iterator[CodecWorker]:
    device = next(decoder.parameters()).device
    worker = CodecWorker(decoder, rows, device, capture)
    try:
        yield worker
    finally:
        worker.close()


def whole(decoder: CodecDecoder, *codes: NDArray[np.int64]) -> Samples:
    """The audio of all codes decoded at once."""
    joined = torch.from_numpy(np.concatenate(codes, axis=1)).to(next(decoder.parameters()).device)
    samples: Samples = decoder.decode(joined[None])[0, 0].cpu().numpy()
    return samples


def same(got: Samples, expected: Samples, tolerance: float = TOLERANCE) -> None:
    assert np.abs(expected).max() > 1000 * tolerance  # or silence would do
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def right(take: Take, decoder: CodecDecoder) -> None:
    same(take.audio(), whole(decoder, take.codes))


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_pieces_come_out_in_order(watched: Watched) -> None:
    take = Take([3, 1, 4, 1, 5, 9, 2, 6])
    with running(watched) as worker:
        take.say(worker)
        right(take, watched)
    assert watched.batches == [(1, frames) for frames in (3, 1, 4, 1, 5, 9, 2, 6)]


@settings(deadline=None, max_examples=6)
@given(cut=st.lists(st.integers(1, 17), min_size=1, max_size=8), seed=st.integers(0, 2**16))
def test_a_stream_in_any_pieces_is_the_whole(decoder: CodecDecoder, cut: list[int], seed: int) -> None:
    take = Take(cut, seed=seed)
    with running(decoder) as worker:
        take.say(worker)
        right(take, decoder)


@settings(deadline=None, max_examples=6)
@given(cuts=st.lists(sizes, min_size=2, max_size=5), rows=st.integers(1, 4), chance=st.randoms(use_true_random=False))
def test_streams_side_by_side_are_each_as_if_alone(
    decoder: CodecDecoder, cuts: list[list[int]], rows: int, chance: random.Random
) -> None:
    """For any order of their pieces and any number of streams per row."""
    takes = [Take(cut, seed=i) for i, cut in enumerate(cuts)]
    order = [take for take in takes for _ in take.pieces]
    chance.shuffle(order)
    come: Counter[Take] = Counter()
    with running(decoder, rows) as worker:
        for take in order:
            take.submit(worker, come[take])
            come[take] += 1
            if come[take] == len(take.pieces):
                worker.end(take.stream)
        for take in takes:
            right(take, decoder)


@settings(deadline=None, max_examples=6)
@given(cuts=st.lists(sizes, min_size=2, max_size=4), rows=st.integers(1, 3), backwards=st.booleans())
def test_a_stream_goes_on_from_the_one_that_it_follows(
    decoder: CodecDecoder, cuts: list[list[int]], rows: int, backwards: bool
) -> None:
    """Even when it is submitted long before that one has begun."""
    takes: list[Take] = []
    for i, cut in enumerate(cuts):
        takes.append(Take(cut, seed=i, follows=takes[-1] if takes else None))
    with running(decoder, rows) as worker:
        for take in reversed(takes) if backwards else takes:
            take.say(worker)
        audio = np.concatenate([take.audio() for take in takes])
    same(audio, whole(decoder, *(take.codes for take in takes)))


def test_a_stream_may_follow_one_that_is_long_over(decoder: CodecDecoder) -> None:
    first, other = Take([7, 2]), Take([5], seed=1)
    second, twin = Take([3, 8], seed=2, follows=first), Take([6], seed=3, follows=first)
    with running(decoder, rows=1) as worker:
        for take in (first, other):
            take.say(worker)
            right(take, decoder)
        for take in (second, twin):  # both from there, neither from the other
            take.say(worker)
        for take in (second, twin):
            expected = whole(decoder, first.codes, take.codes)
            same(take.audio(), expected[9 * 2048 :])


def test_a_stream_waits_until_the_one_before_it_has_ended(decoder: CodecDecoder) -> None:
    first, other = Take([4, 4]), Take([2], seed=2)
    second = Take([4], seed=1, follows=first)
    with running(decoder) as worker:
        first.submit(worker, 0)
        second.say(worker)
        other.say(worker)
        right(other, decoder)
        first.next()
        assert second.got.empty()  # more of the first may come
        first.submit(worker, 1)
        worker.end(first.stream)
        first.next()
        same(second.audio(), whole(decoder, first.codes, second.codes)[8 * 2048 :])


def test_a_stream_without_pieces_hands_the_state_on(decoder: CodecDecoder) -> None:
    first = Take([6])
    empty = CodecStream(first.stream)
    last = Take([5], seed=1)
    last.stream = CodecStream(empty)
    with running(decoder, rows=1) as worker:
        worker.end(empty)
        last.say(worker)
        first.say(worker)
        same(np.concatenate((first.audio(), last.audio())), whole(decoder, first.codes, last.codes))


def test_takes_of_a_voice_continue_its_codes_which_are_decoded_once(watched: Watched) -> None:
    """As many voices are kept as there is room for, and none that was forgotten."""
    contexts = [np.random.default_rng(seed).integers(0, ENTRIES, (CODEBOOKS, 20)) for seed in range(CONTEXTS_KEPT + 1)]
    with running(watched) as worker:

        def speak(voice: int) -> int:
            """Speak in a voice. Returns the batches that its codes took."""
            watched.batches.clear()
            take = Take([5], seed=1)
            take.stream = CodecStream(worker.context_stream(contexts[voice]))
            take.say(worker)
            same(take.audio(), whole(watched, contexts[voice], take.codes)[20 * 2048 :])
            return len(watched.batches) - 1

        assert [speak(0), speak(0)] == [2, 0]
        worker.forget(contexts[0])
        assert [speak(0), speak(0)] == [2, 0]
        for voice in range(1, len(contexts)):
            assert speak(voice) == 2
        assert speak(len(contexts) - 1) == 0
        assert speak(0) == 2


def test_a_voice_whose_codes_failed_is_tried_anew(watched: Watched) -> None:
    codes = np.random.default_rng(0).integers(0, ENTRIES, (CODEBOOKS, 7))
    first, second = Take([5]), Take([5])
    with running(watched) as worker:
        watched.failing[7] = RuntimeError("No memory.")
        first.stream = CodecStream(worker.context_stream(codes))
        first.say(worker)
        assert isinstance(first.next(), RuntimeError)
        second.stream = CodecStream(worker.context_stream(codes))
        second.say(worker)
        same(second.audio(), whole(watched, codes, second.codes)[7 * 2048 :])


def test_a_finished_stream_lets_go_of_those_before_it(decoder: CodecDecoder) -> None:
    first = Take([2])
    second = Take([2], seed=1, follows=first)
    with running(decoder) as worker:
        for take in (first, second):
            take.say(worker)
        until(lambda: second.stream.previous is None)
        assert second.stream.final_state is not None


def test_more_streams_than_rows_all_finish(decoder: CodecDecoder) -> None:
    takes = [Take([4, 8, 3], seed=i) for i in range(9)]
    with running(decoder, rows=2) as worker:
        for take in takes:
            take.say(worker)
        for take in takes:
            right(take, decoder)


def test_a_row_is_kept_between_pieces_and_given_back_at_the_end(decoder: CodecDecoder) -> None:
    first, second = Take([4, 4]), Take([4], seed=1)
    with running(decoder, rows=1) as worker:
        first.submit(worker, 0)
        first.next()
        second.say(worker)
        first.submit(worker, 1)
        first.next()
        assert second.got.empty()
        worker.end(first.stream)
        right(second, decoder)


def test_nothing_comes_of_a_dropped_stream_and_its_row_is_free(watched: Watched) -> None:
    dropped, waiting, late = Take([4, 4, 4]), Take([4, 2], seed=1), Take([3], seed=2)
    with running(watched, rows=1) as worker:
        dropped.submit(worker, 0)
        dropped.next()
        with watched.held(worker, dropped, 1):
            dropped.submit(worker, 2)
            waiting.say(worker)
            worker.drop(dropped.stream)
        right(waiting, watched)
        heard = dropped.got.qsize()
        dropped.say(worker)  # nobody knows it any more
        worker.drop(dropped.stream)
        late.say(worker)
        right(late, watched)
    assert heard <= 1  # the piece that was under way
    assert dropped.got.qsize() == heard
    assert watched.batches == [(1, 4), (1, 4), (1, 4), (1, 2), (1, 3)]


def test_streams_are_dropped_wherever_they_are(watched: Watched) -> None:
    """With a row and nothing to do, waiting for a row, waiting for another stream, and before anything of it came."""
    idle, rowless, unknown = Take([2]), Take([2], seed=1), Take([2], seed=2)
    follower, late = Take([2], seed=3, follows=rowless), Take([5], seed=4)
    with running(watched, rows=1) as worker:
        idle.submit(worker)
        right(idle, watched)
        with watched.held(worker, idle):
            for take in (rowless, follower):
                take.say(worker)
            for take in (unknown, follower, rowless, idle):
                worker.drop(take.stream)
            unknown.say(worker)
            late.say(worker)
        right(late, watched)
        idle.next()
        until(lambda: follower.stream.finished)
    assert all(take.got.empty() for take in (idle, rowless, unknown, follower))
    assert watched.batches == [(1, 2), (1, 2), (1, 5)]


def test_what_follows_a_dropped_stream_goes_on_from_what_was_decoded(watched: Watched) -> None:
    dropped = Take([4, 4])
    follower = Take([3], seed=1, follows=dropped)
    with running(watched) as worker:
        follower.say(worker)
        with watched.held(worker):
            dropped.submit(worker, 0)
        dropped.next()
        worker.drop(dropped.stream)
        same(follower.audio(), whole(watched, dropped.pieces[0], follower.codes)[4 * 2048 :])


def test_pieces_of_a_length_go_together(watched: Watched) -> None:
    takes = [Take([frames], seed=frames + i) for frames in (4, 8, 2) for i in range(3)]
    with running(watched, rows=9) as worker:
        with watched.held(worker):
            for take in takes:
                take.say(worker)
        for take in takes:
            right(take, watched)
    assert watched.batches == [(1, 1), (3, 4), (3, 8), (3, 2)]


@pytest.mark.parametrize("frames", [4, 5, 16, FRAMES_AT_ONCE, FRAMES_AT_ONCE + 6])
def test_there_is_a_limit_to_what_goes_together(watched: Watched, frames: int) -> None:
    """A piece above the limit is decoded alone."""
    most = max(1, FRAMES_AT_ONCE // frames)
    takes = [Take([frames], seed=i) for i in range(most + 2)]
    with running(watched, rows=most + 2) as worker:
        with watched.held(worker):
            for take in takes:
                take.say(worker)
        for take in takes:
            right(take, watched)
    assert watched.batches[1] == (most, frames)
    assert sum(rows for rows, _ in watched.batches[1:]) == most + 2
    assert all(rows <= most for rows, _ in watched.batches)


def test_parts_of_longer_pieces_go_together(watched: Watched) -> None:
    """Where graphs have a few lengths, in which longer pieces are decoded."""
    takes = [Take([frames], seed=frames) for frames in (24, 16, 20)]
    with running(watched, capture=FailingGraphCapture()) as worker:
        with watched.held(worker):
            for take in takes:
                take.say(worker)
        for take in takes:
            right(take, watched)
    assert watched.batches == [(1, 1), (3, 16), (1, 8), (1, 4)]


def test_the_stream_served_longest_ago_goes_first(watched: Watched) -> None:
    journal: list[Take] = []
    takes = [Take([frames] * 4, seed=frames, journal=journal) for frames in (2, 8, 4)]
    with running(watched) as worker:
        with watched.held(worker):
            for take in takes:
                take.say(worker)
        for take in takes:
            right(take, watched)
    assert journal == takes * 4


def test_no_stream_gets_ahead_of_its_like(watched: Watched) -> None:
    """When there are more of one length than fit a batch, all advance alike."""
    journal: list[Take] = []
    most = FRAMES_AT_ONCE // 16
    takes = [Take([16] * 4, seed=i, journal=journal) for i in range(most + 2)]
    with running(watched, rows=len(takes)) as worker:
        with watched.held(worker):
            for take in takes:
                take.say(worker)
        for take in takes:
            right(take, watched)
    for delivered in range(len(journal)):
        counts = Counter(journal[:delivered])
        assert max(counts[take] for take in takes) - min(counts[take] for take in takes) <= 1


def test_a_failed_batch_fails_its_pieces_and_no_others(watched: Watched) -> None:
    failing, other, late = [Take([4, 2], seed=i) for i in range(2)], Take([8, 2], seed=2), Take([4], seed=3)
    watched.failing[4] = error = RuntimeError("no memory")
    with running(watched, rows=3) as worker:
        with watched.held(worker):
            for take in (*failing, other):
                take.say(worker)
        for take in failing:
            assert take.next() is error
            samples = take.next()
            assert isinstance(samples, np.ndarray)
            assert samples.shape == (2 * 2048,)
        right(other, watched)
        late.say(worker)
        right(late, watched)


def test_codes_of_another_codec_are_the_fault_of_their_stream_alone(decoder: CodecDecoder) -> None:
    wrong, fine = Take([4]), Take([4, 4], seed=1)
    wrong.pieces = [wrong.codes[:-1]]
    with running(decoder) as worker:
        wrong.say(worker)
        assert isinstance(wrong.next(), InvalidCodes)
        fine.say(worker)
        right(fine, decoder)


def test_what_stops_the_thread_is_told_to_all_who_wait(watched: Watched) -> None:
    error = ZeroDivisionError("nobody thought of this")

    def broken(*_: object) -> None:
        raise error

    begun = Take([4, 4])
    waiting = [Take([2, 2], seed=1), Take([8], seed=2, follows=begun), Take([3, 3], seed=3)]
    with running(watched, rows=2) as worker:
        begun.submit(worker, 0)
        right_so_far = begun.next()
        with watched.held(worker, begun, 1):
            worker._next_batch = broken  # type: ignore[method-assign]
            for take in waiting:
                take.say(worker)
        assert isinstance(right_so_far, np.ndarray)
        assert isinstance(begun.next(), np.ndarray)
        for take in waiting:
            assert [take.next() for _ in take.pieces] == [error] * len(take.pieces)
        late = Take([1])
        late.say(worker)
        assert isinstance(late.next(), EngineClosed)


def once(function: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """The function, raising the error on its first call."""
    left = [error]

    def failing(*args: Any) -> Any:
        if left:
            raise left.pop()
        return function(*args)

    return failing


@pytest.mark.parametrize("step", ["load", "save"])
def test_a_state_that_cannot_be_moved_ends_its_take_and_no_other(watched: Watched, step: str) -> None:
    """Only the turns that continue it fail as well; its row is free again."""
    error = RuntimeError("no memory")
    first = Take([4])
    second = Take([4, 2], seed=1, follows=first)
    third = Take([2], seed=2, follows=second)
    others = [Take([8, 2], seed=3), Take([4], seed=4)]
    with running(watched, rows=1) as worker:
        moved = once(getattr(worker._batches, step), error)
        if step == "save":
            worker._batches.save = moved  # type: ignore[method-assign]
        first.say(worker)
        right(first, watched)
        until(lambda: first.stream.finished)
        if step == "load":
            worker._batches.load = moved  # type: ignore[method-assign]
        second.submit(worker, 0)
        assert second.next() is error
        second.submit(worker, 1)
        assert second.next() is error
        worker.end(second.stream)
        third.say(worker)
        assert third.next() is error
        for take in others:
            take.say(worker)
            right(take, watched)


def test_a_listener_that_fails_leaves_no_other_waiting(watched: Watched) -> None:
    """In the same batch, in another, and behind them."""
    error = ZeroDivisionError("a listener's own")

    def broken(_: object) -> None:
        raise error

    others = [Take([4, 4], seed=i) for i in range(3)] + [Take([8], seed=3)]
    with running(watched, rows=5) as worker:
        with watched.held(worker):
            worker.submit(CodecStream(), others[0].pieces[0], broken)
            for take in others:
                take.say(worker)
        for take in others:
            for _ in take.pieces:
                take.got.get(timeout=5)  # samples or an error


def test_close_tells_all_who_wait(watched: Watched) -> None:
    going, rowless = Take([4, 4]), Take([2], seed=1)
    follower = Take([2], seed=2, follows=going)
    with running(watched, rows=1) as worker:
        closing = threading.Thread(target=worker.close, daemon=True)
        with watched.held(worker, going):
            going.submit(worker, 1)
            for take in (rowless, follower):
                take.say(worker)
            closing.start()
            until(lambda: worker._inbox.closed)
        closing.join(WAIT)
        assert not closing.is_alive()
        assert not worker._thread.is_alive()
        assert isinstance(going.next(), np.ndarray)
        for take in (going, rowless, follower):
            assert isinstance(take.next(), EngineClosed)
        worker.close()  # may be done again
    assert watched.batches == [(1, 4)]


def test_after_close_everything_is_refused_at_once(decoder: CodecDecoder) -> None:
    with running(decoder) as worker:
        pass
    take = Take([2, 2])
    take.say(worker)
    assert [type(take.got.get_nowait()) for _ in range(2)] == [EngineClosed] * 2
    worker.drop(take.stream)


ROWS = 3


def batches(rows: int) -> int:
    """Captures: powers of two up to the least that has room for all rows, or for as many as go together."""
    return sum((min(rows, FRAMES_AT_ONCE // frames) - 1).bit_length() + 1 for frames in GRAPH_FRAMES)


BATCHES = batches(ROWS)


def hear(worker: CodecWorker, decoder: CodecDecoder, tolerance: float = TOLERANCE) -> None:
    """Assert that streams decode correctly: captured lengths and others, two of which continue other streams."""
    first = [Take([4, 8, 16], seed=i) for i in range(3)] + [Take([7, 3, 9], seed=i) for i in range(3, 5)]
    then = [Take([1, 2, 5], seed=6, follows=first[0]), Take([6], seed=7, follows=first[4])]
    for take in (*first, *then):
        take.say(worker)
    for take in first:
        same(take.audio(), expected(decoder, take), tolerance)
    for take, before in zip(then, (first[0], first[4]), strict=True):
        same(take.audio(), expected(decoder, before, take), tolerance)


_EXPECTED: dict[bytes, Samples] = {}


def expected(decoder: CodecDecoder, *takes: Take) -> Samples:
    """The audio of the last one after the others, computed once for all tests."""
    key = b"|".join(take.codes.tobytes() for take in takes)
    if key not in _EXPECTED:
        before = sum(take.codes.shape[1] for take in takes[:-1])
        _EXPECTED[key] = whole(decoder, *(take.codes for take in takes))[before * 2048 :]
    return _EXPECTED[key]


def test_recorded_batches_sound_like_exact_ones_and_are_there_beforehand(watched: Watched) -> None:
    graphs = FakeGraphCapture()
    with running(watched, ROWS, graphs) as worker:
        until(lambda: graphs.captured == BATCHES)
        ran = len(watched.batches)
        hear(worker, watched)
        assert graphs.captured == BATCHES
        assert graphs.replayed > 0
    assert len(watched.batches) == ran  # the codec's Python never ran again


def test_a_recorded_batch_changes_its_own_rows_alone(decoder: CodecDecoder) -> None:
    """A batch of four rows holds four streams first, then three of them."""
    takes, graphs, rows = [Take([4, 4], seed=i) for i in range(4)], FakeGraphCapture(), 5  # one is for `stopped`
    with running(decoder, rows, graphs) as worker:
        until(lambda: graphs.captured == batches(rows))
        for piece, speaking in ((0, takes), (1, takes[:3]), (1, takes[3:])):
            before = graphs.replayed
            with stopped(worker):
                for take in speaking:
                    take.submit(worker, piece)
            until(lambda speaking=speaking, piece=piece: all(take.got.qsize() == piece + 1 for take in speaking))
            assert graphs.replayed == before + 2  # all of them at once, behind the one that stopped the thread
        for take in takes:
            right(take, decoder)


@contextmanager
def stopped(worker: CodecWorker) -> Iterator[None]:
    """Stop the worker in a callback; afterwards it sees all that was sent."""
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


class GatedGraphCapture:
    """Captures once its gate is open."""

    fixed_shapes = True

    def __init__(self) -> None:
        self.graphs = FakeGraphCapture()
        self.gate = threading.Event()

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        assert self.gate.wait(WAIT)
        return self.graphs.capture(function, *inputs)


def test_who_comes_before_all_is_recorded_waits_for_little_of_it(decoder: CodecDecoder) -> None:
    capture, take = GatedGraphCapture(), Take([4])
    recorded: list[int] = []

    def deliver(got: Samples | Exception) -> None:
        recorded.append(capture.graphs.captured)
        take.deliver(got)

    with running(decoder, ROWS, capture) as worker:
        worker.submit(take.stream, take.codes, deliver)
        capture.gate.set()
        right(take, decoder)
        assert recorded[0] <= 2 < BATCHES
        hear(worker, decoder)
        until(lambda: capture.graphs.captured == BATCHES)
        hear(worker, decoder)


def test_a_device_that_cannot_record_is_told_of_once(decoder: CodecDecoder, caplog: pytest.LogCaptureFixture) -> None:
    with running(decoder, ROWS, FailingGraphCapture()) as worker:
        hear(worker, decoder)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not permitted" in caplog.text


class LimitedGraphCapture:
    """Fails after a number of captures."""

    fixed_shapes = True

    def __init__(self, limit: int) -> None:
        self.graphs, self._limit = FakeGraphCapture(), limit

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        if self.graphs.captured == self._limit:
            raise MemoryError("no room for another")
        return self.graphs.capture(function, *inputs)


@pytest.mark.parametrize("limit", [1, BATCHES - 1])
def test_so_is_one_that_cannot_go_on(decoder: CodecDecoder, limit: int, caplog: pytest.LogCaptureFixture) -> None:
    with running(decoder, ROWS, LimitedGraphCapture(limit)) as worker:
        until(lambda: bool(caplog.records))
        hear(worker, decoder)
    assert len(caplog.records) == 1
