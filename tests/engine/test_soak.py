"""Soak test: concurrent requests of every kind give the same audio as alone, and all are freed."""

import gc
import os
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.codec.codec import DecoderState
from engine.engine import Engine
from engine.errors import EngineBusy, InvalidCodes, InvalidText
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, SegmentResult
from engine.release.profile import Profile
from engine.request.speech import Speech
from engine.serving.codec_worker import CodecStream
from engine.serving.turn import Turn
from engine.voice import Voice
from tests.engine.test_engine import CLIP, TRANSCRIPT, assert_same_audio, take
from tests.paths import MINIATURE

WAIT = 240.0  # seconds until the test counts as hanging
THREADS, REQUESTS = 8, 3  # requests of each thread
FIRST = 60  # number of the first client; the numbers are seeds, and with these every action occurs
SLOTS, QUEUE = 3, 3  # fewer places than threads
MEMORY = 32 << 20  # bytes that the last two thirds may add to the first third: allocator noise
# Actions of a client with a speech, and their weights.
WAYS = {
    "hear": 10,
    "cancel": 3,
    "cancel from thread": 3,
    "close": 2,
    "drop": 3,
    "keep": 2,
    "forget": 1,
    "empty": 1,
    "bad": 1,
}

TEXTS = (
    "Hi.",
    "A sentence, and not a short one.",
    " ".join(f"This is the long sentence number {i}." for i in range(3)),
)
Samples = NDArray[np.float32]


def push_with_early_end(self: Turn, frame: NDArray[np.int64], end_index: int) -> None:
    """End each turn after a number of frames given by its key; some turns stop as loops, so that they are retried."""
    if self.frames >= 3 + self.key % 11:
        frame = np.full_like(frame, end_index)
    PUSH(self, frame, end_index)
    if self.stop == "end" and self.key % 7 == 0:
        self.stop = "loop"


PUSH = Turn.push


@dataclass(frozen=True)
class Line:
    """A request, and its result when it is spoken alone."""

    text: str
    voice: Voice | None
    seed: int
    audio: Samples
    segments: tuple[SegmentResult, ...]


@dataclass
class SoakRun:
    """The engine, the requests to draw from, and the outcomes."""

    engine: Engine
    lines: list[Line]
    wrong: Voice
    done: Counter[str] = field(default_factory=Counter)
    errors: list[BaseException] = field(default_factory=list)
    requests: list[weakref.ref[object]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, way: str) -> None:
        with self.lock:
            self.done[way] += 1


class Client(threading.Thread):
    """A client that makes one request after the other, and reads, cancels or drops it."""

    def __init__(self, number: int, run_state: SoakRun) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self.run_state, self.engine = run_state, run_state.engine
        self.random = random.Random(number)
        ways = self.random.choices(list(WAYS), list(WAYS.values()), k=REQUESTS)
        self.plan = [(way, self.random.choice(run_state.lines)) for way in ways]
        self.kept: Speech | None = None  # started, but no longer read
        self.warm = threading.Event()

    def run(self) -> None:
        try:
            for i, (way, line) in enumerate(self.plan):
                if i == REQUESTS // 3:
                    self.warm.set()
                self.perform(way, line)
        except BaseException as error:
            self.run_state.errors.append(error)
        finally:
            self.kept = None
            self.warm.set()

    def perform(self, way: str, line: Line) -> None:
        if way == "empty":
            with pytest.raises(InvalidText):
                self.engine.speak("  ", line.voice)
        elif way == "bad":
            with pytest.raises(InvalidCodes):
                self.engine.speak(line.text, self.run_state.wrong)
        else:
            getattr(self, "do_" + way.replace(" ", "_"))(self.open_speech(line), line)
        self.run_state.note(way)

    def open_speech(self, line: Line) -> Speech:
        """Open a request, retrying while the engine is busy."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                speech = self.engine.speak(line.text, line.voice, SpeakOptions(seed=line.seed))
                self.run_state.requests.append(weakref.ref(speech._request))
                return speech
            except EngineBusy:
                self.kept = None  # otherwise retrying clients could hold all places
                self.run_state.note("busy")
                assert time.monotonic() < deadline
                time.sleep(self.random.random() * 0.02)

    def read_some(self, speech: Speech) -> list[AudioChunk]:
        """Read one to four chunks."""
        return list(islice(speech, self.random.randint(1, 4)))

    def do_hear(self, speech: Speech, line: Line) -> None:
        assert_same_audio(take(list(speech)), line.audio)
        assert speech.result is not None
        assert speech.result.segments == line.segments

    def do_cancel(self, speech: Speech, _: Line) -> None:
        if self.random.random() < 0.8:
            self.read_some(speech)
        speech.cancel()
        assert list(speech) == []
        assert speech.result is not None

    def do_cancel_from_thread(self, speech: Speech, line: Line) -> None:
        timer = threading.Timer(self.random.random() * 0.5, speech.cancel)
        timer.start()
        chunks = list(speech)
        timer.join()
        result = speech.result
        assert result is not None
        if result.stop_reason != "cancelled":
            assert_same_audio(take(chunks), line.audio)
        assert result.stop_reason == "cancelled" or result.segments == line.segments

    def do_close(self, speech: Speech, _: Line) -> None:
        self.read_some(speech)
        speech.close()
        assert list(speech) == []

    def do_drop(self, speech: Speech, _: Line) -> None:
        self.read_some(speech)

    def do_keep(self, speech: Speech, line: Line) -> None:
        if self.random.random() < 0.5 and self.kept is not None:
            list(self.kept)
        self.kept = speech
        next(speech)

    def do_forget(self, speech: Speech, _: Line) -> None:
        pass  # the speech is never read


def memory() -> int:
    """Return the resident bytes of this process, or 0 on systems without /proc."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def wait_until_idle(engine: Engine, deadline: float) -> None:
    """Wait until both threads are idle: CPython cannot finish a tuple that `gc.get_objects` returns half built."""
    loop, worker = engine._pipeline.loop, engine._pipeline.codec_worker
    while loop._turns or worker._streams or len(worker._free) < 2 * SLOTS:
        assert time.monotonic() < deadline, "the engine did not become idle"
        time.sleep(1e-3)


def count_live_objects() -> int:
    """Count the turns, codec streams and states that are still referenced."""
    gc.collect()
    return sum(type(each) in (Turn, CodecStream, DecoderState) for each in gc.get_objects())


def speak_alone(engine: Engine, text: str, voice: Voice | None, seed: int) -> Line:
    chunks = list(speech := engine.speak(text, voice, SpeakOptions(seed=seed)))
    assert speech.result is not None
    return Line(text, voice, seed, take(chunks), speech.result.segments)


@pytest.fixture
def run_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[SoakRun]:
    monkeypatch.setattr(Turn, "push", push_with_early_end)
    monkeypatch.setattr("engine.request.turns.frame_minimum", lambda *_: 0)
    engine = Engine.load(MINIATURE, "cpu", slots=SLOTS, queue=QUEUE)
    monkeypatch.setattr(engine, "_profile", Profile(max_segment_bytes=40))
    voice = engine.encode_voice("Slt", [(CLIP, TRANSCRIPT)]).voice
    (reference,) = voice.references
    long_voice = replace(voice, references=(replace(reference, codes=np.tile(reference.codes, (1, 3))),))
    wrong = replace(voice, references=(replace(reference, codes=reference.codes[:4]),))
    voices = (None, voice, long_voice)
    lines = [
        speak_alone(engine, text, who, seed) for seed, (text, who) in enumerate((t, v) for t in TEXTS for v in voices)
    ]
    yield SoakRun(engine, lines, wrong)
    engine.close()


@pytest.mark.slow
def test_concurrent_requests_equal_single_ones_and_are_freed(run_state: SoakRun) -> None:
    engine, pipeline = run_state.engine, run_state.engine._pipeline
    attempts = {segment.attempts for line in run_state.lines for segment in line.segments}
    assert attempts == {1, 2}
    assert max(len(line.segments) for line in run_state.lines) == 3
    deadline = time.monotonic() + WAIT
    wait_until_idle(engine, deadline)
    parts = count_live_objects()
    clients = [Client(number, run_state) for number in range(FIRST, FIRST + THREADS)]
    for client in clients:
        client.start()
    for client in clients:
        assert client.warm.wait(deadline - time.monotonic())
    before = memory()
    for client in clients:
        client.join(deadline - time.monotonic())
        assert not client.is_alive(), "the client hangs"
    assert run_state.errors == []
    assert set(run_state.done) == {*WAYS, "busy"}
    assert run_state.done.total() - run_state.done["busy"] == THREADS * REQUESTS

    loop, worker = pipeline.loop, pipeline.codec_worker
    wait_until_idle(engine, deadline)
    status = engine.status()
    assert (status.speaking, status.waiting, len(loop.scheduler.open_tickets()), loop._turns) == (0, 0, 0, {})
    assert (worker._streams, sorted(worker._free)) == ([], list(range(2 * SLOTS)))
    assert loop._thread.is_alive()
    assert worker._thread.is_alive()
    assert count_live_objects() <= parts + 4  # local variables of the threads may keep the last ones
    assert [ref for ref in run_state.requests if ref() is not None] == []
    assert memory() - before < MEMORY
    again = speak_alone(engine, run_state.lines[-1].text, run_state.lines[-1].voice, run_state.lines[-1].seed)
    assert_same_audio(again.audio, run_state.lines[-1].audio)
