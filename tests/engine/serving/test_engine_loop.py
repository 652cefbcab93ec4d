"""The engine loop under many requests: order, cancellation, failures and shutdown."""

import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import pytest
from torch import Tensor

from engine.codec.codec import CodecDecoder, DecoderState
from engine.engine import Engine, SpeakOptions
from engine.errors import EngineBusy, EngineClosed, EngineFailed, RepriseError
from engine.request import AudioChunk, Speech, noise_key
from engine.sentences import english
from engine.serving.runner.graphs import TorchScriptCapture
from engine.serving.runner.model_runner import PendingFrames
from engine.serving.runner.slots import PREFILL_CHUNK
from engine.serving.runner.step_runners import GraphMode
from engine.serving.scheduler import Scheduler, Ticket
from engine.serving.turn import Turn
from engine.voice import Voice
from tests.engine.test_engine import CLIP, TRANSCRIPT, same_sound, take
from tests.paths import MINIATURE

WAIT = 120.0  # seconds until a test counts as hanging; nothing here takes a tenth of it
T = TypeVar("T")
Call = tuple[str, tuple[int, ...]]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it does not come to pass"
        time.sleep(1e-3)


@dataclass
class Work:
    """A function run in a thread, so that a hang is a failure and does not hang the tests."""

    thread: threading.Thread = field(init=False)
    found: object = None
    error: Exception | None = None

    def start(self, work: Callable[[], object]) -> "Work":
        def run() -> None:
            try:
                self.found = work()
            except Exception as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        return self

    def join(self) -> None:
        self.thread.join(WAIT)
        assert not self.thread.is_alive(), "it hangs"


def within(work: Callable[[], T]) -> T:
    """Return or raise what `work` does; fail if it hangs."""
    done = Work().start(work)
    done.join()
    if done.error is not None:
        raise done.error
    return done.found  # type: ignore[return-value]


class Reader(Work):
    """A thread that reads a speech to its end."""

    def __init__(self, speech: Speech) -> None:
        super().__init__()
        self.speech = speech
        self.chunks: list[AudioChunk] = []
        self.start(lambda: self.chunks.extend(speech))

    def ended(self, reason: str = "end") -> bool:
        self.join()
        assert self.error is None, self.error
        assert self.speech.result is not None
        return self.speech.result.stop_reason == reason

    def failed(self, kind: type[Exception]) -> str:
        """Assert the type of the error, and that it can be translated. Returns its message."""
        self.join()
        assert type(self.error) is kind, (self.error, self.speech.result)
        assert isinstance(self.error, RepriseError)
        assert self.error.sentence.key in english()
        assert self.speech.result is None
        return str(self.error)


class Gate:
    """A gate that a thread passes repeatedly, and that can stop it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passes: int | None = None  # how many more may pass; None for all
        self.arrived = 0

    def through(self) -> None:
        with self._changed:
            self.arrived += self._passes == 0
            assert self._changed.wait_for(lambda: self._passes != 0, WAIT)
            if self._passes is not None:
                self._passes -= 1

    def allow(self, passes: int | None) -> None:
        with self._changed:
            self._passes = passes
            self._changed.notify_all()


class WatchedEngine:
    """An engine whose model runner records its calls and can be stopped before any of them.

    calls: `begin`, `prefill` or `step`, with the seeds of its requests. failing: the error that a call raises.
    """

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.calls: list[Call] = []
        self.failing: Callable[[Call], Exception | None] = lambda _: None
        self._gates = {name: Gate() for name in ("begin", "prefill", "step")}
        self._seeds: dict[int, int] = {}
        self._in: dict[int, int] = {}  # seed by slot
        for name in self._gates:
            monkeypatch.setattr(engine._runner, name, self._watched(name, getattr(engine._runner, name)))
        pipeline = engine._pipeline
        self.loop, self.codec_worker, self.scheduler = pipeline.loop, pipeline.codec_worker, pipeline.loop.scheduler

    def _watched(self, name: str, function: Callable[..., T]) -> Callable[..., T]:
        def call(*args: Any) -> T:
            self._gates[name].through()
            if name == "begin":
                self._in[args[0]] = self._seeds.get(args[3], -1)
            slots = args[0] if isinstance(args[0], Sequence) else [args[0]]
            self.calls.append((name, tuple(self._in[slot] for slot in slots)))
            if error := self.failing(self.calls[-1]):
                raise error
            return function(*args)

        return call

    def stop(self, name: str, begin: Callable[[], T]) -> T:
        """Call `begin`, and return when the engine's thread has stopped at this gate."""
        gate = self._gates[name]
        arrived = gate.arrived
        gate.allow(0)
        begun = begin()
        until(lambda: gate.arrived > arrived)
        return begun

    def pass_once(self, name: str) -> None:
        """Let the thread pass once, and wait until it is back at the gate."""
        gate = self._gates[name]
        arrived = gate.arrived
        gate.allow(1)
        until(lambda: gate.arrived > arrived)

    def go(self) -> None:
        for gate in self._gates.values():
            gate.allow(None)

    def say(self, seed: int, voice: Voice | None = None, text: str = "Hi.") -> Speech:
        self._seeds[noise_key(seed, 0, 1)] = seed
        return self.engine.speak(text, voice, SpeakOptions(seed=seed))

    def read(self, seed: int, voice: Voice | None = None) -> Reader:
        return Reader(self.say(seed, voice))

    def sent(self, speech: Speech) -> Reader:
        """A reader whose turn is in the inbox of the engine's thread, which is stopped."""
        before = self.loop._inbox._queue.qsize()
        reader = Reader(speech)
        until(lambda: self.loop._inbox._queue.qsize() > before)
        return reader

    def begun(self) -> list[int]:
        return [seeds[0] for name, seeds in self.calls if name == "begin"]

    def settles(self) -> None:
        """Assert that no request is left, and that the engine still speaks."""
        rows = list(range(2 * self.engine.slots))
        until(
            lambda: not self.loop._turns and not self.codec_worker._streams and sorted(self.codec_worker._free) == rows
        )
        assert (len(self.scheduler.open_tickets()), self.scheduler.speaking, self.scheduler.waiting) == (0, 0, 0)
        assert (self.engine.status().speaking, self.engine.status().waiting) == (0, 0)
        assert within(lambda: list(self.say(99)))


class Turns:
    """Lengths of turns in frames, because random weights never draw the end. of: by the seed of a request."""

    def __init__(self) -> None:
        self.frames = 4  # a chunk
        self.of: dict[int, int] = {}

    def length(self, turn: Turn) -> int:
        keys = {noise_key(seed, 0, 1): frames for seed, frames in self.of.items()}
        return keys.get(turn.key, self.frames)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    chosen, push = Turns(), Turn.push

    def ending(self: Turn, frame: np.ndarray, end_index: int) -> None:
        push(self, np.full_like(frame, end_index) if self.frames >= chosen.length(self) else frame, end_index)

    monkeypatch.setattr(Turn, "push", ending)
    monkeypatch.setattr("engine.request.frame_minimum", lambda *_: 0)
    return chosen


@pytest.fixture
def watch(
    turns: Turns, shared_weights: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., WatchedEngine]]:
    made: list[WatchedEngine] = []

    def build(slots: int, queue: int, graphs: GraphMode = "off") -> WatchedEngine:
        made.append(WatchedEngine(Engine.load(MINIATURE, "cpu", slots=slots, queue=queue, graphs=graphs), monkeypatch))
        return made[-1]

    yield build
    for each in made:
        each.go()
        within(each.engine.close)


@pytest.fixture(scope="module")
def voice() -> Voice:
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    made = engine.encode_voice("Slt", [(CLIP, TRANSCRIPT)]).voice
    engine.close()
    return made


@pytest.fixture(scope="module")
def long_voice(voice: Voice) -> Voice:
    """A voice whose prompt has several prefill chunks."""
    (reference,) = voice.references
    codes = np.tile(reference.codes, (1, 5))
    assert 2 * PREFILL_CHUNK < codes.shape[1] < 3 * PREFILL_CHUNK
    return replace(voice, references=(replace(reference, codes=codes),))


# --- places --------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def never_heard(_: list[Speech]) -> None:
    pass


def half_heard(speeches: list[Speech]) -> None:
    next(speeches[0])


def cancelled(speeches: list[Speech]) -> None:
    speeches[0].cancel()


def half_heard_and_cancelled(speeches: list[Speech]) -> None:
    next(speeches[0])
    speeches[0].cancel()


def half_heard_and_closed(speeches: list[Speech]) -> None:
    next(speeches[0])
    speeches[0].close()


def heard(speeches: list[Speech]) -> None:
    assert list(speeches[0])


WAYS = (never_heard, half_heard, cancelled, half_heard_and_cancelled, half_heard_and_closed, heard)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("way", WAYS)
def test_a_dropped_speech_gives_its_place_back_at_once(
    watch: Callable[..., WatchedEngine], turns: Turns, way: Callable[[list[Speech]], None]
) -> None:
    """Without the garbage collector: there are no references to it and no cycles."""
    full, turns.frames = watch(1, 1), 12
    speeches = [full.say(seed) for seed in (1, 2)]
    with pytest.raises(EngineBusy, match="All 2 places"):
        full.say(3)
    way(speeches)
    known: list[weakref.ref[Any]] = [weakref.ref(speeches[0]), weakref.ref(speeches[0]._request)]
    del speeches[0]
    speeches.append(full.say(4))
    with pytest.raises(EngineBusy):
        full.say(5)
    assert [ref() for ref in known] == [None, None]
    speeches.clear()
    full.settles()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("way", [cancelled, half_heard_and_cancelled, half_heard_and_closed, heard])
def test_who_is_done_gives_its_place_back_though_it_is_still_held(
    watch: Callable[..., WatchedEngine], turns: Turns, way: Callable[[list[Speech]], None]
) -> None:
    full, turns.frames = watch(1, 1), 12
    speeches = [full.say(seed) for seed in (1, 2)]
    way(speeches)
    speeches.append(full.say(4))
    with pytest.raises(EngineBusy):
        full.say(5)
    assert list(speeches[0]) == []
    result = speeches[0].result
    assert result is None if way is half_heard_and_closed else result is not None
    speeches.clear()
    full.settles()


@pytest.mark.usefixtures("no_collector")
def test_what_failed_keeps_neither_its_place_nor_its_memory(watch: Callable[..., WatchedEngine]) -> None:
    full = watch(1, 0)
    full.failing = lambda call: RuntimeError("no") if call == ("step", (1,)) else None
    speech = full.say(1)
    known: list[weakref.ref[Any]] = [weakref.ref(speech), weakref.ref(speech._request)]
    with pytest.raises(EngineFailed):
        list(speech)
    assert list(full.say(2))
    del speech
    assert [ref() for ref in known] == [None, None]
    full.settles()


# --- finalizers ----------------------------------------------------------------------------------------------------


class Garbage:
    """Part of a reference cycle, so that only the garbage collector frees it and what it holds."""

    def __init__(self, held: object) -> None:
        self.itself, self.held = self, held


@pytest.fixture
def restless_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # it is quick when it need not look at all that was there before
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("restless_collector")
def test_speeches_that_the_collector_ends_hold_up_nobody(watch: Callable[..., WatchedEngine]) -> None:
    many = watch(2, 200)
    collected: list[str] = []

    def talk(talker: int) -> None:
        for i in range(3):
            for j in range(3):
                speech = many.say(100 * talker + 10 * i + j)
                if j == 0:
                    next(speech)
                Garbage(speech)
                weakref.finalize(speech, lambda: collected.append(threading.current_thread().name))
            del speech
            assert list(many.say(100 * talker + 10 * i + 9))

    talkers = [Work().start(lambda talker=talker: talk(talker)) for talker in range(3)]  # type: ignore[misc]
    for talker in talkers:
        talker.join()
        assert talker.error is None
    assert collected  # while the others spoke
    gc.collect()
    assert len(collected) == 3 * 3 * 3
    many.settles()


def test_a_speech_may_be_finalized_at_any_line_of_the_engine_s_threads(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector may run finalizers there, even while a thread holds locks."""
    files = tuple(f"serving/{name}.py" for name in ("scheduler", "inbox", "engine_loop", "codec_worker"))
    passed: dict[tuple[str, int], int] = {}
    functions: set[str] = set()
    finalizers: list[Callable[[], None]] = []

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.replace("\\", "/").endswith(files):
            return None
        line = frame.f_code.co_filename, frame.f_lineno
        passed[line] = passed.get(line, 0) + 1
        if finalizers and passed[line] <= 40 and threading.current_thread().name.startswith("reprise-"):
            functions.add(frame.f_code.co_name)
            sys.settrace(None)
            for finalizer in finalizers:
                finalizer()
            sys.settrace(interrupt)
        return interrupt

    threading.settrace(interrupt)  # of threads that begin from now on
    try:
        engine = Engine.load(MINIATURE, "cpu", slots=2, queue=9, graphs="off")
    finally:
        threading.settrace(None)
    gone = engine.speak("Hi.", None, SpeakOptions(seed=1))
    next(gone)
    stream = gone._request._turns[0].stream
    leave = gone._request.leave
    finalizers += [leave, lambda: engine._pipeline.codec_worker.drop(stream)]
    passed.clear()
    readers = [Reader(engine.speak("Hi.", None, SpeakOptions(seed=seed))) for seed in (2, 3, 4)]
    assert all(reader.ended() for reader in readers)
    within(engine.close)
    assert {"plan", "enqueue", "release", "read", "_receive", "_push", "send", "_next_batch", "_finish"} <= functions


def test_tickets_may_leave_at_any_line_of_the_scheduler() -> None:
    scheduler = Scheduler(2, 4)
    left: set[str] = set()

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename.endswith("scheduler.py") and frame.f_code.co_name != "leave":
            left.add(frame.f_code.co_name)
            scheduler.leave(gone)
            return interrupt
        return None

    gone = scheduler.enter()
    scheduler.enqueue(gone)
    staying = [scheduler.enter() for _ in range(2)]

    def work() -> None:
        sys.settrace(interrupt)  # of this thread alone
        newcomer = scheduler.enter()
        for ticket in (newcomer, *staying):
            scheduler.enqueue(ticket)
        served = [scheduler.plan().prefill for _ in range(2)]
        scheduler.ready(staying[0])
        places = scheduler.place(newcomer), len(scheduler.open_tickets()), scheduler.waiting, scheduler.speaking
        scheduler.release(staying[0])
        sys.settrace(None)
        assert [prefill[0] for prefill in served] == [staying[0], staying[0]]
        assert places == (0, 3, 1, 1)

    within(work)
    assert {"enter", "enqueue", "plan", "ready", "release", "place", "open_tickets", "waiting", "speaking"} <= left


@pytest.mark.usefixtures("restless_collector")
def test_tickets_that_the_collector_takes_away_hold_up_nobody() -> None:
    scheduler = Scheduler(2, 30)

    def abandon() -> None:
        kept = Garbage(None)
        ticket = scheduler.enter()
        weakref.finalize(kept, scheduler.leave, ticket)
        scheduler.enqueue(ticket)

    def serve(ticket: Ticket) -> None:
        scheduler.enqueue(ticket)
        while ticket not in scheduler.plan().prefill:
            pass
        scheduler.ready(ticket)
        scheduler.release(ticket)
        scheduler.leave(ticket)

    def work() -> None:
        for _ in range(60):
            for _ in range(3):
                abandon()
            gc.collect()  # those before it in the queue
            serve(scheduler.enter())

    within(work)
    gc.collect()
    scheduler.plan()
    assert (len(scheduler.open_tickets()), scheduler.waiting, scheduler.speaking) == (0, 0, 0)


# --- cancel --------------------------------------------------------------------------------------------------------


def test_cancelling_one_who_speaks_lets_the_next_one_in(watch: Callable[..., WatchedEngine], turns: Turns) -> None:
    one = watch(1, 2)
    turns.of[1] = 60
    first = one.say(1, text="A sentence that is long enough to be spoken for quite a while.")
    chunk = next(first)
    one.stop("step", lambda: None)
    second = one.sent(one.say(2))
    one.pass_once("step")
    status = one.engine.status()
    assert (status.speaking, status.waiting, status.slots, status.device_memory) == (1, 1, 1, None)
    first.cancel()
    assert one.engine.status().speaking == 0
    one.go()
    assert second.ended()
    assert list(first) == []
    assert first.result is not None
    assert (first.result.stop_reason, first.result.frames) == ("cancelled", chunk.frames)
    steps = [seeds for name, seeds in one.calls if name == "step"]
    assert steps.index((2,)) < 60 - turns.frames  # it did not wait for the first one's end
    assert (1,) not in steps[steps.index((2,)) :]
    one.settles()


def test_one_who_waits_can_cancel_and_is_passed_over(watch: Callable[..., WatchedEngine], turns: Turns) -> None:
    one = watch(1, 3)
    readers = [one.stop("step", lambda: one.read(1)), *(one.sent(one.say(seed)) for seed in (2, 3))]
    one.pass_once("step")
    assert one.engine.status().waiting == 2
    readers[1].speech.cancel()
    assert one.engine.status().waiting == 1
    assert readers[1].ended("cancelled")  # while nobody moves
    one.go()
    assert readers[0].ended()
    assert readers[2].ended()
    assert one.begun() == [1, 3]
    one.settles()


def test_a_prompt_that_is_not_wanted_any_more_is_read_no_further(
    watch: Callable[..., WatchedEngine], long_voice: Voice
) -> None:
    one = watch(1, 3)
    first = one.stop("prefill", lambda: one.read(1, long_voice))
    second = one.sent(one.say(2))
    one.pass_once("prefill")
    assert (one.engine.status().speaking, one.engine.status().waiting) == (0, 1)
    first.speech.cancel()
    assert first.ended("cancelled")
    one.go()
    assert second.ended()
    assert one.calls.count(("prefill", (1,))) == 2  # the one behind the gate was on its way
    assert ("step", (1,)) not in one.calls
    one.settles()


def test_cancelled_before_it_was_heard_it_is_never_begun(watch: Callable[..., WatchedEngine]) -> None:
    one = watch(1, 0)
    speech = one.say(1)
    speech.cancel()
    speech.cancel()
    assert list(speech) == []
    assert speech.result is not None
    assert (speech.result.stop_reason, speech.result.frames, speech.result.segments) == ("cancelled", 0, ())
    assert list(one.say(2))
    assert one.begun() == [2]
    one.settles()


# --- readers that stop, and who comes first ------------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "graphs"), [(1, "off"), (2, "frame")])
def test_readers_who_stop_hold_up_nobody(
    watch: Callable[..., WatchedEngine], turns: Turns, slots: int, graphs: GraphMode
) -> None:
    some = watch(slots, 20, graphs)
    turns.frames = 11  # several pieces, of which these readers take the first
    stopped = [some.say(seed) for seed in range(2 * slots + 3)]
    for speech in stopped:
        assert within(lambda speech=speech: next(speech)).start == 0  # type: ignore[misc]
    assert [some.read(seed).ended() for seed in (50, 51)] == [True, True]
    until(lambda: len(some.codec_worker._free) == 2 * slots)
    assert some.engine.status().speaking == 0
    assert len(some.scheduler.open_tickets()) == len(stopped)
    for speech in stopped:  # and what they have not taken is still there
        within(lambda speech=speech: list(speech))  # type: ignore[misc]
        assert speech.result is not None
        assert speech.result.frames == turns.frames
    some.settles()


def test_first_come_first_served(watch: Callable[..., WatchedEngine]) -> None:
    one = watch(1, 9)
    readers = [one.stop("step", lambda: one.read(0))]
    speeches = [one.say(seed) for seed in range(1, 7)]  # here they come
    random.Random(3).shuffle(speeches)
    for speech in speeches:  # though they are heard in another order
        readers.append(one.sent(speech))
        if len(readers) % 3 == 0:
            one.pass_once("step")
    assert one.engine.status().waiting >= 5
    one.go()
    assert all(reader.ended() for reader in readers)
    assert one.begun() == list(range(7))
    one.settles()


def test_a_long_prompt_is_read_between_the_frames_of_others(
    watch: Callable[..., WatchedEngine], turns: Turns, long_voice: Voice
) -> None:
    two = watch(2, 2)
    turns.frames = 16
    first = two.say(1)
    next(first)
    two.stop("step", lambda: None)
    readers = [two.sent(two.say(2, long_voice)), Reader(first)]
    two.go()
    assert all(reader.ended() for reader in readers)
    pieces = [i for i, call in enumerate(two.calls) if call == ("prefill", (2,))]
    assert len(pieces) > 3
    for one, other in pairwise(pieces):
        assert two.calls[one + 1 : other] == [("step", (1,))]
    assert ("step", (1, 2)) in two.calls
    two.settles()


# --- failures ------------------------------------------------------------------------------------------------------

FAILURES = [RuntimeError("out of memory on the device\nand a page of advice"), ValueError("a prompt of 1 position")]


def is_one_sentence(said: str, error: Exception) -> bool:
    assert "\n" not in said
    assert "Traceback" not in said
    return said == f"The model failed while it was speaking ({str(error).splitlines()[0]}); try again."


@pytest.mark.parametrize(("call", "error"), zip(["begin", "prefill"], FAILURES, strict=True))
def test_a_prompt_that_fails_ends_its_request_and_no_other(
    watch: Callable[..., WatchedEngine], turns: Turns, call: str, error: Exception
) -> None:
    two = watch(2, 2)
    alone = take(within(lambda: list(two.say(1))))
    two.failing = lambda made: error if made == (call, (2,)) else None
    readers = [two.stop("begin", lambda: two.read(1)), *(two.sent(two.say(seed)) for seed in (2, 3))]
    two.go()
    assert is_one_sentence(readers[1].failed(EngineFailed), error)
    assert readers[0].ended()
    assert readers[2].ended()
    same_sound(take(readers[0].chunks), alone)
    assert two.read(4).ended()
    assert not any(2 in seeds for name, seeds in two.calls if name == "step")
    two.settles()


@pytest.mark.parametrize(("when", "error"), zip(["started", "read"], FAILURES, strict=True))
def test_a_frame_that_fails_ends_those_it_was_for(
    watch: Callable[..., WatchedEngine], turns: Turns, monkeypatch: pytest.MonkeyPatch, when: str, error: Exception
) -> None:
    two = watch(2, 3)
    turns.frames = 12
    failed: list[Call] = []
    result = PendingFrames.frames

    def once(call: Call) -> Exception | None:
        if call[1] == (1, 2) and not failed:
            failed.append(call)
            return error if when == "started" else None
        return None

    def frames(self: PendingFrames) -> np.ndarray:
        if two.calls[-1:] == failed == [("step", (1, 2))] and when == "read":
            failed.append(("read", ()))
            raise error
        return result(self)

    monkeypatch.setattr(PendingFrames, "frames", frames)
    two.failing = once
    readers = [two.stop("begin", lambda: two.read(1)), *(two.sent(two.say(seed)) for seed in (2, 3))]
    two.go()
    assert all(is_one_sentence(reader.failed(EngineFailed), error) for reader in readers[:2])
    assert readers[2].ended()
    assert two.read(4).ended()
    assert failed
    two.settles()


def test_sound_that_fails_ends_its_request_and_no_other(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = watch(1, 2)
    decode_step, errors = CodecDecoder.decode_step, list(FAILURES[:1])

    def failing(self: CodecDecoder, codes: Tensor, state: DecoderState) -> Tensor:
        if errors:
            raise errors.pop()
        return decode_step(self, codes, state)

    monkeypatch.setattr(CodecDecoder, "decode_step", failing)
    assert is_one_sentence(one.read(1).failed(EngineFailed), FAILURES[0])
    assert one.read(2).ended()
    one.settles()


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_when_the_loop_itself_fails_all_are_told(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    one = watch(1, 5)
    readers = [one.stop("step", lambda: one.read(1)), one.sent(one.say(2))]
    one.pass_once("step")
    readers.append(one.sent(one.say(3)))
    unheard, failing = one.say(5), Gate()

    def plan() -> None:
        failing.through()
        raise error

    monkeypatch.setattr(one.scheduler, "plan", plan)
    failing.allow(0)
    one.go()
    until(lambda: failing.arrived)
    readers.append(one.sent(one.say(4)))  # not let in yet when it happens
    failing.allow(1)
    assert all(is_one_sentence(reader.failed(EngineFailed), error) for reader in readers)
    with pytest.raises(EngineClosed):
        within(lambda: list(unheard))
    for seed in (6, 7):
        with pytest.raises(EngineClosed):
            within(lambda seed=seed: list(one.say(seed)))  # type: ignore[misc]
    assert not one.loop._thread.is_alive()
    assert len(one.scheduler.open_tickets()) == 0
    within(one.engine.close)
    assert not one.codec_worker._thread.is_alive()


# --- the end -------------------------------------------------------------------------------------------------------


def test_closing_ends_all_who_speak_who_wait_and_whose_sound_is_still_made(
    watch: Callable[..., WatchedEngine], turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = set(threading.enumerate())
    one, decodable = watch(1, 5), threading.Semaphore(1)
    decode_step = CodecDecoder.decode_step

    def waiting(self: CodecDecoder, codes: Tensor, state: DecoderState) -> Tensor:
        assert decodable.acquire(timeout=WAIT)
        return decode_step(self, codes, state)

    def ours() -> list[str]:
        return sorted(t.name for t in threading.enumerate() if t not in others and t.name.startswith("reprise-"))

    monkeypatch.setattr(CodecDecoder, "decode_step", waiting)
    turns.frames = 13  # several pieces, of which the first is decoded, the second is under way and the others wait
    done = one.read(1)
    until(lambda: done.chunks)
    until(lambda: not one.loop._turns)
    readers = [done, one.stop("step", lambda: one.read(2)), one.sent(one.say(3))]
    one.pass_once("step")
    readers.append(one.sent(one.say(4)))  # not let in yet
    unheard = one.say(5)
    assert (one.engine.status().speaking, one.engine.status().waiting) == (1, 1)
    assert {"reprise-decoding", "reprise-engine"} <= set(ours())
    closing = Work().start(one.engine.close)
    until(lambda: one.loop._inbox.closed)
    one.go()
    until(lambda: one.codec_worker._inbox.closed)
    decodable.release(99)
    closing.join()
    assert closing.error is None
    assert all("not running" in reader.failed(EngineClosed) for reader in readers)
    assert done.chunks
    assert one.begun() == [1, 2]
    with pytest.raises(EngineClosed):
        within(lambda: list(unheard))
    with pytest.raises(EngineClosed):
        one.say(6)
    assert ours() == []
    within(one.engine.close)
    assert len(one.scheduler.open_tickets()) == 0


def test_an_engine_that_did_nothing_closes_too() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, queue=0, graphs="off")
    within(engine.close)
    within(engine.close)
    assert not engine._pipeline.loop._thread.is_alive()


# --- what it says --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graphs", ["frame", "fast", "off"])
def test_status_says_what_is_recorded(watch: Callable[..., WatchedEngine], graphs: GraphMode) -> None:
    one = watch(1, 1, graphs)
    assert one.engine.status().graphs == graphs
    assert one.read(1).ended()
    assert one.engine.status().graphs == graphs


@pytest.mark.parametrize(("graphs", "said"), [("frame", "\nno tracer here:"), ("fast", "no tracer here:\nat all")])
def test_steps_that_cannot_be_recorded_are_said_and_spoken(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch, graphs: GraphMode, said: str
) -> None:
    def capture(*_: object) -> None:
        raise RuntimeError(said)  # those of PyTorch's tracer begin with an empty line

    alone = take(within(lambda: list(watch(1, 1).say(1))))
    monkeypatch.setattr(TorchScriptCapture, "capture", capture)
    one = watch(1, 1, graphs)
    assert one.engine.status().graphs == "off: they could not be recorded (no tracer here:)"
    reader = one.read(1)
    assert reader.ended()
    same_sound(take(reader.chunks), alone)


def test_status_counts_who_speaks_and_who_waits(watch: Callable[..., WatchedEngine]) -> None:
    two = watch(2, 4)
    assert (two.engine.status().slots, two.engine.status().speaking, two.engine.status().waiting) == (2, 0, 0)
    readers = [two.stop("step", lambda: two.read(1)), *(two.sent(two.say(seed)) for seed in (2, 3, 4))]
    for speaking, waiting in ((1, 2), (2, 2)):  # the second one's prompt is read behind the first one's frame
        two.pass_once("step")
        assert (two.engine.status().speaking, two.engine.status().waiting) == (speaking, waiting)
    two.go()
    assert all(reader.ended() for reader in readers)
    two.settles()


def test_the_stages_of_the_first_audio_add_up(watch: Callable[..., WatchedEngine], long_voice: Voice) -> None:
    two = watch(2, 4)
    takes = []
    for known in (False, True):
        reader = two.read(1, long_voice)
        assert reader.ended()
        takes.append(take(reader.chunks))
        result = reader.speech.result
        assert result is not None
        stages = result.stages
        assert stages is not None
        parts = (stages.queue, stages.prefill, stages.frames, stages.decode)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(result.first_audio)
        assert result.first_audio == reader.chunks[0].elapsed
        assert (3 * PREFILL_CHUNK < stages.reused < stages.positions) if known else stages.reused == 0
    same_sound(*takes)


@pytest.mark.parametrize("other", [True, False])
def test_a_known_voice_is_reused_in_any_slot(
    watch: Callable[..., WatchedEngine], long_voice: Voice, other: bool
) -> None:
    two = watch(2, 4)
    alone = take(within(lambda: list(two.say(1, long_voice))))
    # The other has the slot in which the voice was.
    first = two.stop("step", lambda: two.read(2)) if other else None
    second = two.sent(two.say(1, long_voice)) if other else two.read(1, long_voice)
    two.go()
    assert second.ended()
    assert first is None or first.ended()
    assert second.speech.result is not None
    assert second.speech.result.stages is not None
    assert second.speech.result.stages.reused > 3 * PREFILL_CHUNK  # the voice to its last position
    same_sound(take(second.chunks), alone)
    two.settles()
