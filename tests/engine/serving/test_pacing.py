"""The pacer counts the underruns of a simulated listener and makes chunks as large as the buffer allows."""

from collections import deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.serving.pacing import CHUNK_FRAMES, Pacer

# All times are multiples of a tick that floats represent exactly, so comparisons need no tolerance.
TICK = 1 / 32
FRAME_TICKS = 3
FRAME = FRAME_TICKS * TICK

# An event: ticks since the previous event, frames, and whether they were sent or withdrawn.
Event = tuple[int, int, bool]
waits = st.integers(0, 60)
sent = st.tuples(waits, st.integers(1, 16), st.just(True))
withdrawn = st.tuples(waits, st.integers(0, 40), st.just(False))


class Listener:
    """Simulated listener that plays one tick at a time: buffered audio, or silence."""

    def __init__(self) -> None:
        self.begun = False
        self.waiting = 0  # ticks of buffered audio
        self.silence = 0  # ticks since the buffer ran empty
        self.underruns = self.stall_seconds = 0

    def listen(self, ticks: int) -> None:
        for _ in range(ticks if self.begun else 0):
            if self.waiting:
                self.waiting -= 1
            else:
                self.silence += 1

    def sent(self, frames: int) -> None:
        self.begun = True
        self.underruns += self.silence > 0
        self.stall_seconds += self.silence
        self.silence = 0
        self.waiting += frames * FRAME_TICKS

    def withdrawn(self, frames: int) -> None:
        self.waiting = max(0, self.waiting - frames * FRAME_TICKS)


def assert_pacer_agrees(events: list[Event], start: int) -> None:
    pacer, listener, now = Pacer(FRAME), Listener(), start
    for wait, frames, is_sent in events:
        now += wait
        listener.listen(wait)
        if is_sent:
            pacer.sent(frames, now * TICK)
            listener.sent(frames)
        else:
            pacer.withdrawn(frames, now * TICK)
            listener.withdrawn(frames)
        assert (pacer.underruns, pacer.stall_seconds) == (listener.underruns, listener.stall_seconds * TICK)


@given(events=st.lists(sent, max_size=30), start=st.integers(0, 2**20))
def test_underruns_match_a_simulated_listener(events: list[Event], start: int) -> None:
    assert_pacer_agrees(events, start)


@given(events=st.lists(st.one_of(sent, withdrawn), max_size=30), start=st.integers(0, 2**20))
@example(events=[(0, 4, True), (20, 4, False), (1, 4, True)], start=0)  # withdrawn after the buffer ran empty
@example(events=[(5, 4, False), (9, 4, True)], start=0)  # withdrawn before anything was sent
def test_underruns_match_when_audio_is_withdrawn(events: list[Event], start: int) -> None:
    assert_pacer_agrees(events, start)


def test_start_and_end_are_not_underruns() -> None:
    pacer = Pacer(FRAME)
    pacer.sent(4, 100.0)
    pacer.withdrawn(0, 1000.0)
    assert (pacer.underruns, pacer.stall_seconds) == (0, 0)


def test_chunk_is_late_only_after_the_buffer_ends() -> None:
    pacer = Pacer(FRAME)
    pacer.sent(4, 0)
    pacer.sent(4, 4 * FRAME)
    assert (pacer.underruns, pacer.stall_seconds) == (0, 0)
    pacer.sent(4, 8 * FRAME + TICK)
    assert (pacer.underruns, pacer.stall_seconds) == (1, TICK)


def test_withdrawal_keeps_frames_already_played() -> None:
    """All 16 frames are withdrawn after 6 have been played; the 4 replacing frames are played next."""
    pacer = Pacer(FRAME)
    pacer.sent(16, 0)
    pacer.withdrawn(16, 6 * FRAME)
    pacer.sent(4, 6 * FRAME)
    pacer.sent(4, 10 * FRAME)
    assert pacer.underruns == 0
    pacer.sent(1, 14 * FRAME + TICK)
    assert (pacer.underruns, pacer.stall_seconds) == (1, TICK)


def test_partial_withdrawal_keeps_the_remaining_frames() -> None:
    pacer = Pacer(FRAME)
    pacer.sent(16, 0)
    pacer.withdrawn(4, FRAME)
    pacer.sent(1, 12 * FRAME)
    assert pacer.underruns == 0
    pacer.sent(1, 13 * FRAME + TICK)
    assert pacer.underruns == 1


@given(events=st.lists(st.one_of(sent, withdrawn), max_size=30))
def test_chunk_sizes_are_from_the_fixed_set(events: list[Event]) -> None:
    pacer, now = Pacer(FRAME), 0
    for wait, frames, is_sent in events:
        now += wait
        (pacer.sent if is_sent else pacer.withdrawn)(frames, now * TICK + 1e-6 * now)
        assert pacer.next_frames(now * TICK + 1e-6 * now) in CHUNK_FRAMES


def test_first_chunk_has_the_smallest_size() -> None:
    assert [Pacer(FRAME).next_frames(now) for now in (0.0, 7.5, 1e6)] == [CHUNK_FRAMES[0]] * 3
    assert list(CHUNK_FRAMES) == sorted(set(CHUNK_FRAMES))


def test_first_chunk_has_frames_for_what_is_kept_back() -> None:
    pacer = Pacer(FRAME, lookahead=2)
    assert pacer.next_frames(0.0) == CHUNK_FRAMES[0] + 2
    pacer.sent(CHUNK_FRAMES[0], 0.0)
    assert pacer.next_frames(0.1) in CHUNK_FRAMES


class Production:
    """Simulated engine that generates frames one by one, with a codec that decodes one chunk at a time.

    codec: decoding time of a frame as a share of its duration. ask_each_frame: whether the chunk size is asked after
    each frame, instead of once per chunk.
    """

    def __init__(self, codec: float = 0, *, ask_each_frame: bool = False) -> None:
        self.pacer = Pacer(FRAME)
        self.sizes: list[int] = []
        self._ask_each_frame, self._wanted = ask_each_frame, self.pacer.next_frames(0)
        self._now, self._unsent = 0.0, 0
        self._codec, self._codec_free = codec * FRAME, 0.0
        self._under_way: deque[tuple[float, int]] = deque()
        self._chunks: list[tuple[float, int]] = []

    def run(self, frames: int, speed: float) -> None:
        """Generate frames. speed: generation time of a frame as a share of its duration."""
        for _ in range(frames):
            self._now += speed * FRAME
            self._unsent += 1
            self._arrive()
            if self._unsent >= (self.pacer.next_frames(self._now) if self._ask_each_frame else self._wanted):
                self._send()

    def _send(self) -> None:
        self._codec_free = max(self._now, self._codec_free) + self._unsent * self._codec
        self._under_way.append((self._codec_free, self._unsent))
        self.sizes.append(self._unsent)
        self._arrive()
        self._unsent, self._wanted = 0, self.pacer.next_frames(self._now)

    def _arrive(self) -> None:
        while self._under_way and self._under_way[0][0] <= self._now:
            at, frames = self._under_way.popleft()
            self.pacer.sent(frames, at)
            self._chunks.append((at, frames))

    def gaps(self) -> list[float]:
        """Return the seconds of each silence between chunks."""
        found, end = [], None
        for at, frames in self._chunks:
            if end is not None and at > end:
                found.append(at - end)
            end = max(at, end or at) + frames * FRAME
        return found


@pytest.mark.parametrize("ask_each_frame", [False, True])
@pytest.mark.parametrize("codec", [0, 0.1, 0.25])
@pytest.mark.parametrize("speed", [0.02, 0.1, 0.3, 0.5, 0.7, 0.8])
def test_no_gaps_if_faster_than_real_time(speed: float, codec: float, ask_each_frame: bool) -> None:
    production = Production(codec, ask_each_frame=ask_each_frame)
    production.run(600, speed)
    assert production.gaps() == []
    assert (production.pacer.underruns, production.pacer.stall_seconds) == (0, 0)
    assert production.sizes[0] == CHUNK_FRAMES[0]
    assert production.sizes[-1] == CHUNK_FRAMES[-1]


@pytest.mark.parametrize("speed", [0.1, 0.3, 0.5, 0.7])
def test_chunks_only_grow_at_constant_speed(speed: float) -> None:
    production = Production()
    production.run(600, speed)
    assert production.sizes == sorted(production.sizes)
    assert set(production.sizes) <= set(CHUNK_FRAMES)
    assert (production.sizes[0], production.sizes[-1]) == (CHUNK_FRAMES[0], CHUNK_FRAMES[-1])


@pytest.mark.parametrize("ask_each_frame", [False, True])
def test_no_gaps_if_slightly_faster_than_real_time(ask_each_frame: bool) -> None:
    production = Production(ask_each_frame=ask_each_frame)
    production.run(600, speed=0.95)
    assert production.gaps() == []
    assert production.pacer.underruns == 0


@pytest.mark.parametrize(("speed", "size"), [(0.1, CHUNK_FRAMES[-1]), (0.9, CHUNK_FRAMES[0])])
def test_faster_production_allows_larger_chunks(speed: float, size: int) -> None:
    pacer, now, pieces = Pacer(FRAME), 0.0, 30
    for piece in range(pieces):
        now = piece * 4 * speed * FRAME
        pacer.sent(4, now)
    assert pacer.underruns == 0
    assert pacer.next_frames(now=(pieces * 4 - 10) * FRAME) == size  # ten frames before the end


def test_chunks_shrink_when_production_slows_down() -> None:
    production = Production(ask_each_frame=True)
    production.run(300, speed=0.2)
    assert production.sizes[-1] == CHUNK_FRAMES[-1]
    grown = len(production.sizes)
    while not production.gaps():
        production.run(1, speed=3)
    slow = production.sizes[grown:]
    assert slow[0] > slow[-2] == CHUNK_FRAMES[0]  # the last chunk was late
    assert slow == sorted(slow, reverse=True)


def test_slower_than_real_time_sends_small_chunks_with_underruns() -> None:
    production = Production()
    production.run(80, speed=1.5)
    assert set(production.sizes) == {CHUNK_FRAMES[0]}
    assert len(production.gaps()) == production.pacer.underruns == len(production.sizes) - 1
    assert production.pacer.stall_seconds == pytest.approx(sum(production.gaps()))
