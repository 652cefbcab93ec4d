"""Hundreds of requests of every kind at once: each sounds as if it were alone, and nothing is left of any of them."""

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
from engine.engine import Engine, SpeakOptions
from engine.errors import EngineBusy, InvalidCodes, InvalidText
from engine.release.profile import Profile
from engine.request import AudioChunk, SegmentResult, Speech
from engine.serving.codec_worker import Line as Sound
from engine.serving.turn import Turn
from engine.voice import Voice
from tests.engine.test_engine import CLIP, TRANSCRIPT, same_sound, take
from tests.paths import MINIATURE

WAIT = 240.0  # seconds after which something hangs
THREADS, REQUESTS = 8, 25  # requests of each thread
SLOTS, QUEUE = 3, 3  # fewer places than threads
MEMORY = 32 << 20  # bytes that the last two thirds may add to the first: the noise of an allocator
# What somebody does with a speech, and how often.
WAYS = {
    "hear": 10,
    "cancel": 3,
    "cancel from afar": 3,
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


def ending_soon(self: Turn, frame: NDArray[np.int64], end_index: int) -> None:
    """A turn's key says when it ends, and, now and then, that it has to be spoken anew."""
    if self.frames >= 3 + self.key % 11:
        frame = np.full_like(frame, end_index)
    PUSH(self, frame, end_index)
    if self.stop == "end" and self.key % 7 == 0:
        self.stop = "loop"


PUSH = Turn.push


@dataclass(frozen=True)
class Line:
    """What is to be said, and what it is when it is said alone."""

    text: str
    voice: Voice | None
    seed: int
    audio: Samples
    segments: tuple[SegmentResult, ...]


@dataclass
class Company:
    """What came of all the requests."""

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


class Guest(threading.Thread):
    """Asks for one thing after the other, and treats it well or badly."""

    def __init__(self, number: int, company: Company) -> None:
        super().__init__(name=f"guest-{number}", daemon=True)
        self.company, self.engine = company, company.engine
        self.random = random.Random(number)
        ways = self.random.choices(list(WAYS), list(WAYS.values()), k=REQUESTS)
        self.wishes = [(way, self.random.choice(company.lines)) for way in ways]
        self.kept: Speech | None = None  # begun, and not read on
        self.warm = threading.Event()

    def run(self) -> None:
        try:
            for i, (way, line) in enumerate(self.wishes):
                if i == REQUESTS // 3:
                    self.warm.set()
                self.ask(way, line)
        except BaseException as error:
            self.company.errors.append(error)
        finally:
            self.kept = None
            self.warm.set()

    def ask(self, way: str, line: Line) -> None:
        if way == "empty":
            with pytest.raises(InvalidText):
                self.engine.speak("  ", line.voice)
        elif way == "bad":
            with pytest.raises(InvalidCodes):
                self.engine.speak(line.text, self.company.wrong)
        else:
            getattr(self, "do_" + way.replace(" ", "_"))(self.enter(line), line)
        self.company.note(way)

    def enter(self, line: Line) -> Speech:
        """A place, waited for while there is none."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                speech = self.engine.speak(line.text, line.voice, SpeakOptions(seed=line.seed))
                self.company.requests.append(weakref.ref(speech._request))
                return speech
            except EngineBusy:
                self.kept = None  # or all the places might be kept by those who look for one
                self.company.note("busy")
                assert time.monotonic() < deadline
                time.sleep(self.random.random() * 0.02)

    def some(self, speech: Speech) -> list[AudioChunk]:
        """Its first chunks."""
        return list(islice(speech, self.random.randint(1, 4)))

    def do_hear(self, speech: Speech, line: Line) -> None:
        same_sound(take(list(speech)), line.audio)
        assert speech.result is not None
        assert speech.result.segments == line.segments

    def do_cancel(self, speech: Speech, _: Line) -> None:
        if self.random.random() < 0.8:
            self.some(speech)
        speech.cancel()
        assert list(speech) == []
        assert speech.result is not None

    def do_cancel_from_afar(self, speech: Speech, line: Line) -> None:
        timer = threading.Timer(self.random.random() * 0.5, speech.cancel)
        timer.start()
        chunks = list(speech)
        timer.join()
        result = speech.result
        assert result is not None
        if result.stop_reason != "cancelled":
            same_sound(take(chunks), line.audio)
        assert result.stop_reason == "cancelled" or result.segments == line.segments

    def do_close(self, speech: Speech, _: Line) -> None:
        self.some(speech)
        speech.close()
        assert list(speech) == []

    def do_drop(self, speech: Speech, _: Line) -> None:
        self.some(speech)

    def do_keep(self, speech: Speech, line: Line) -> None:
        if self.random.random() < 0.5 and self.kept is not None:
            list(self.kept)
        self.kept = speech
        next(speech)

    def do_forget(self, speech: Speech, _: Line) -> None:
        pass  # it was never listened to


def memory() -> int:
    """Bytes of this process in memory now; 0 where the system does not say it in this way."""
    said = Path("/proc/self/statm")
    return int(said.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if said.exists() else 0


def settle(engine: Engine, deadline: float) -> None:
    """Until both threads only wait: CPython cannot finish a tuple that `gc.get_objects` hands out half made."""
    loop, decoding = engine._speaker.loop, engine._speaker.decoding
    while loop._speaking or decoding._lines or len(decoding._free) < 2 * SLOTS:
        assert time.monotonic() < deadline, "it does not come to rest"
        time.sleep(1e-3)


def alive() -> int:
    """Parts of speeches that something still holds."""
    gc.collect()
    return sum(type(each) in (Turn, Sound, DecoderState) for each in gc.get_objects())


def alone(engine: Engine, text: str, voice: Voice | None, seed: int) -> Line:
    chunks = list(speech := engine.speak(text, voice, SpeakOptions(seed=seed)))
    assert speech.result is not None
    return Line(text, voice, seed, take(chunks), speech.result.segments)


@pytest.fixture
def company(monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    monkeypatch.setattr(Turn, "push", ending_soon)
    engine = Engine.load(MINIATURE, "cpu", slots=SLOTS, queue=QUEUE)
    monkeypatch.setattr(engine, "_profile", Profile(max_segment_bytes=40))
    voice = engine.encode_voice("Slt", [(CLIP, TRANSCRIPT)]).voice
    (reference,) = voice.references
    long_voice = replace(voice, references=(replace(reference, codes=np.tile(reference.codes, (1, 3))),))
    wrong = replace(voice, references=(replace(reference, codes=reference.codes[:4]),))
    voices = (None, voice, long_voice)
    lines = [alone(engine, text, who, seed) for seed, (text, who) in enumerate((t, v) for t in TEXTS for v in voices)]
    yield Company(engine, lines, wrong)
    engine.close()


@pytest.mark.slow
def test_hundreds_of_requests_of_every_kind(company: Company) -> None:
    engine, speaker = company.engine, company.engine._speaker
    attempts = {segment.attempts for line in company.lines for segment in line.segments}
    assert attempts == {1, 2}
    assert max(len(line.segments) for line in company.lines) == 3
    deadline = time.monotonic() + WAIT
    settle(engine, deadline)
    parts = alive()
    guests = [Guest(number, company) for number in range(THREADS)]
    for guest in guests:
        guest.start()
    for guest in guests:
        assert guest.warm.wait(deadline - time.monotonic())
    before = memory()
    for guest in guests:
        guest.join(deadline - time.monotonic())
        assert not guest.is_alive(), "it hangs"
    assert company.errors == []
    assert set(company.done) == {*WAYS, "busy"}
    assert company.done.total() - company.done["busy"] == THREADS * REQUESTS

    loop, decoding = speaker.loop, speaker.decoding
    settle(engine, deadline)
    status = engine.status()
    assert (status.speaking, status.waiting, loop.scheduler.open, loop._speaking) == (0, 0, 0, {})
    assert (decoding._lines, sorted(decoding._free)) == ([], list(range(2 * SLOTS)))
    assert loop._thread.is_alive()
    assert decoding._thread.is_alive()
    assert alive() <= parts + 4  # the last one that either thread looked at may differ in its parts
    assert [ref for ref in company.requests if ref() is not None] == []
    assert memory() - before < MEMORY
    again = alone(engine, company.lines[-1].text, company.lines[-1].voice, company.lines[-1].seed)
    same_sound(again.audio, company.lines[-1].audio)
