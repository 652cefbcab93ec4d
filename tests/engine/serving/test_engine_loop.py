"""The engine loop under many requests: order, cancellation, failures and shutdown."""

import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from linecache import getline
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import pytest
from torch import Tensor

from engine.codec.codec import CodecDecoder, DecoderState
from engine.engine import Engine
from engine.errors import EngineBusy, EngineClosed, EngineFailed, RepriseError
from engine.messages import english
from engine.models.prompt import Prompt
from engine.options import SpeakOptions
from engine.outputs import AudioChunk
from engine.request.speech import Speech
from engine.request.turns import noise_key
from engine.serving.codec_worker import CodecWorker
from engine.serving.engine_loop import _PREPARED
from engine.serving.runner.model_runner import ModelRunner, PendingFrames
from engine.serving.runner.slots import PREFILL_CHUNK
from engine.serving.runner.step_runners import GraphMode
from engine.serving.runner.traces import TorchScriptCapture
from engine.serving.scheduler import Scheduler, Ticket
from engine.serving.turn import Turn
from engine.voice import Voice
from tests.engine.test_engine import CLIP, TRANSCRIPT, assert_same_audio, take
from tests.paths import MINIATURE
from tests.support.waiting import until

WAIT = 120.0  # seconds until a test counts as hanging, ten times what any test needs
T = TypeVar("T")
Call = tuple[str, tuple[int, ...]]


@dataclass
class BackgroundCall:
    """A function run in a thread, so that a hang fails the test instead of blocking it."""

    thread: threading.Thread = field(init=False)
    found: object = None
    error: Exception | None = None

    def start(self, work: Callable[[], object]) -> "BackgroundCall":
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
        assert not self.thread.is_alive(), "the thread hangs"


def run_with_timeout(work: Callable[[], T]) -> T:
    """Run `work`, return its result or raise its error, and fail if it hangs."""
    done = BackgroundCall().start(work)
    done.join()
    if done.error is not None:
        raise done.error
    return done.found  # type: ignore[return-value]


class Reader(BackgroundCall):
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
        assert self.error.message.key in english()
        assert self.speech.result is None
        return str(self.error)


class Gate:
    """A gate that a thread passes repeatedly, and that can block it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passes: int | None = None  # remaining passes; None for no limit
        self.arrived = 0

    def pass_through(self) -> None:
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
    """An engine whose model runner records its calls and can be stopped before each.

    calls: `begin`, `prefill` or `step`, with the seeds of its requests. failing: returns the error that a call raises.
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
            self._gates[name].pass_through()
            if name == "begin":
                self._in[args[0]] = self._seeds.get(args[3], -1)
            slots = args[0] if isinstance(args[0], Sequence) else [args[0]]
            self.calls.append((name, tuple(self._in[slot] for slot in slots)))
            if error := self.failing(self.calls[-1]):
                raise error
            return function(*args)

        return call

    def stop(self, name: str, begin: Callable[[], T]) -> T:
        """Call `begin`, and return when the engine's thread has stopped at gate `name`."""
        gate = self._gates[name]
        arrived = gate.arrived
        gate.allow(0)
        result = begin()
        until(lambda: gate.arrived > arrived)
        return result

    def pass_once(self, name: str) -> None:
        """Let the thread pass once, and wait until it is at the gate again."""
        gate = self._gates[name]
        arrived = gate.arrived
        gate.allow(1)
        until(lambda: gate.arrived > arrived)

    def open_gates(self) -> None:
        for gate in self._gates.values():
            gate.allow(None)

    def speak_seed(self, seed: int, voice: Voice | None = None, text: str = "Hi.") -> Speech:
        self._seeds[noise_key(seed, 0, 1)] = seed
        return self.engine.speak(text, voice, SpeakOptions(seed=seed))

    def read(self, seed: int, voice: Voice | None = None) -> Reader:
        return Reader(self.speak_seed(seed, voice))

    def send(self, speech: Speech) -> Reader:
        """Start a reader, and return when its turn is in the inbox of the stopped engine's thread."""
        before = self.loop._inbox._queue.qsize()
        reader = Reader(speech)
        until(lambda: self.loop._inbox._queue.qsize() > before)
        return reader

    def begun_seeds(self) -> list[int]:
        return [seeds[0] for name, seeds in self.calls if name == "begin"]

    def assert_idle(self) -> None:
        """Assert that no request is left and that the engine still works."""
        rows = list(range(2 * self.engine.info.slots))
        until(
            lambda: not self.loop._turns and not self.codec_worker._streams and sorted(self.codec_worker._free) == rows
        )
        assert (len(self.scheduler.open_tickets()), self.scheduler.speaking, self.scheduler.waiting) == (0, 0, 0)
        assert (self.engine.status().speaking, self.engine.status().waiting) == (0, 0)
        assert run_with_timeout(lambda: list(self.speak_seed(99)))


class Turns:
    """Lengths of turns in frames, since random weights never sample the end. of: by the seed of a request."""

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
    monkeypatch.setattr("engine.request.turns.frame_minimum", lambda *_: 0)
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
        each.open_gates()
        run_with_timeout(each.engine.close)


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


def with_first_code(voice: Voice, code: int) -> Voice:
    """Return another voice, of the same length."""
    (reference,) = voice.references
    codes = reference.codes.copy()
    codes[0, 0] = code
    return replace(voice, references=(replace(reference, codes=codes),))


# --- places --------------------------------------------------------------------------------------------------------


@pytest.fixture
def gc_disabled() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def unread(_: list[Speech]) -> None:
    pass


def partly_read(speeches: list[Speech]) -> None:
    next(speeches[0])


def cancelled(speeches: list[Speech]) -> None:
    speeches[0].cancel()


def partly_read_and_cancelled(speeches: list[Speech]) -> None:
    next(speeches[0])
    speeches[0].cancel()


def partly_read_and_closed(speeches: list[Speech]) -> None:
    next(speeches[0])
    speeches[0].close()


def fully_read(speeches: list[Speech]) -> None:
    assert list(speeches[0])


WAYS = (unread, partly_read, cancelled, partly_read_and_cancelled, partly_read_and_closed, fully_read)


@pytest.mark.usefixtures("gc_disabled")
def test_dropped_speech_frees_its_place_immediately(watch: Callable[..., WatchedEngine], turns: Turns) -> None:
    """Works without the garbage collector: no references and no cycles remain."""
    full, turns.frames = watch(1, 1), 12
    for way in WAYS:
        speeches = [full.speak_seed(seed) for seed in (1, 2)]
        with pytest.raises(EngineBusy, match="the limit is 2"):
            full.speak_seed(3)
        way(speeches)
        known: list[weakref.ref[Any]] = [weakref.ref(speeches[0]), weakref.ref(speeches[0]._request)]
        del speeches[0]
        speeches.append(full.speak_seed(4))
        with pytest.raises(EngineBusy):
            full.speak_seed(5)
        assert [ref() for ref in known] == [None, None], way
        speeches.clear()
    full.assert_idle()


@pytest.mark.usefixtures("gc_disabled")
def test_finished_speech_frees_its_place_while_referenced(watch: Callable[..., WatchedEngine], turns: Turns) -> None:
    full, turns.frames = watch(1, 1), 12
    for way in (cancelled, partly_read_and_cancelled, partly_read_and_closed, fully_read):
        speeches = [full.speak_seed(seed) for seed in (1, 2)]
        way(speeches)
        speeches.append(full.speak_seed(4))
        with pytest.raises(EngineBusy):
            full.speak_seed(5)
        assert list(speeches[0]) == [], way
        result = speeches[0].result
        assert result is None if way is partly_read_and_closed else result is not None, way
        speeches.clear()
    full.assert_idle()


@pytest.mark.usefixtures("gc_disabled")
def test_failed_speech_frees_its_place_and_memory(watch: Callable[..., WatchedEngine]) -> None:
    full = watch(1, 0)
    full.failing = lambda call: RuntimeError("no") if call == ("step", (1,)) else None
    speech = full.speak_seed(1)
    known: list[weakref.ref[Any]] = [weakref.ref(speech), weakref.ref(speech._request)]
    with pytest.raises(EngineFailed):
        list(speech)
    assert list(full.speak_seed(2))
    del speech
    assert [ref() for ref in known] == [None, None]
    full.assert_idle()


# --- finalizers ----------------------------------------------------------------------------------------------------


class Garbage:
    """Part of a reference cycle, so that only the garbage collector frees it and its contents."""

    def __init__(self, held: object) -> None:
        self.itself, self.held = self, held


@pytest.mark.usefixtures("frequent_gc")
def test_speeches_finalized_by_gc_do_not_block_others(watch: Callable[..., WatchedEngine]) -> None:
    many = watch(2, 200)
    collected: list[str] = []

    def talk(talker: int) -> None:
        for i in range(2):
            for j in range(3):
                speech = many.speak_seed(100 * talker + 10 * i + j)
                if j == 0:
                    next(speech)
                Garbage(speech)
                weakref.finalize(speech, lambda: collected.append(threading.current_thread().name))
            del speech
            assert list(many.speak_seed(100 * talker + 10 * i + 9))

    talkers = [BackgroundCall().start(lambda talker=talker: talk(talker)) for talker in range(2)]  # type: ignore[misc]
    for talker in talkers:
        talker.join()
        assert talker.error is None
    assert collected  # while other speeches were running

    def all_collected() -> bool:
        gc.collect()  # does nothing while another thread collects
        return len(collected) == 2 * 2 * 3

    until(all_collected)
    many.assert_idle()


@pytest.mark.usefixtures("shared_weights", "turns")
def test_speech_may_be_finalized_at_any_line_of_engine_threads() -> None:
    """The garbage collector may run finalizers there, even while a thread holds locks."""
    files = tuple(
        f"serving/{name}.py" for name in ("scheduler", "inbox", "engine_loop", "codec_worker", "batch_decoder")
    )
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

    threading.settrace(interrupt)  # of threads started from now on
    try:
        engine = Engine.load(MINIATURE, "cpu", slots=2, queue=9, graphs="off")
    finally:
        threading.settrace(None)
    gone = engine.speak("Hi.", None, SpeakOptions(seed=1))
    next(gone)
    stream = gone._request._turns.open[0].stream
    leave = gone._request.leave
    finalizers += [leave, lambda: engine._pipeline.codec_worker.drop(stream)]
    passed.clear()
    readers = [Reader(engine.speak("Hi.", None, SpeakOptions(seed=seed))) for seed in (2, 3, 4)]
    assert all(reader.ended() for reader in readers)
    run_with_timeout(engine.close)
    assert {"plan", "enqueue", "release", "read", "_receive", "_push", "send", "_next_batch", "_finish"} <= functions


def test_request_that_fails_on_its_way_in_keeps_no_place(bundled_engine: Engine) -> None:
    """For lack of memory, say, at any line before its caller has it."""
    files, functions = ("scheduler.py", "engine_loop.py", "request.py", "turn.py"), set[str]()
    lines = 0  # until one fails

    def fail(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(files):
            return None
        # Python also passes the line of a "with" on leaving it, when an error would leave the lock taken.
        counts = event == "line" and not getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with")
        lines -= counts
        if counts and lines == 0:
            functions.add(frame.f_code.co_name)
            raise MemoryError
        return fail

    def speak() -> bool:
        sys.settrace(fail)
        try:
            speech = bundled_engine.speak("Hi.", None, SpeakOptions(seed=1))
        except MemoryError:
            return False
        finally:
            sys.settrace(None)
        speech.close()
        return True

    for first in count(1):
        lines = first
        if speak():
            break
        assert bundled_engine._pipeline.loop.scheduler.open_tickets() == []
    assert {"enter", "_enter", "__init__"} <= functions


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
        sys.settrace(interrupt)  # of this thread only
        newcomer = scheduler.enter()
        for ticket in (newcomer, *staying):
            scheduler.enqueue(ticket)
        served = [scheduler.plan().prefill for _ in range(2)]
        scheduler.ready(staying[0])
        places = (
            scheduler.queue_position(newcomer),
            len(scheduler.open_tickets()),
            scheduler.waiting,
            scheduler.speaking,
        )
        scheduler.release(staying[0])
        sys.settrace(None)
        assert [prefill[0] for prefill in served] == [staying[0], staying[0]]
        assert places == (0, 3, 1, 1)

    run_with_timeout(work)
    assert {
        "enter",
        "enqueue",
        "plan",
        "ready",
        "release",
        "queue_position",
        "open_tickets",
        "waiting",
        "speaking",
    } <= left


@pytest.mark.usefixtures("frequent_gc")
def test_tickets_finalized_by_gc_do_not_block_others() -> None:
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
            gc.collect()  # tickets before it in the queue
            serve(scheduler.enter())

    run_with_timeout(work)
    gc.collect()
    scheduler.plan()
    assert (len(scheduler.open_tickets()), scheduler.waiting, scheduler.speaking) == (0, 0, 0)


# --- cancel --------------------------------------------------------------------------------------------------------


def test_cancelled_speaking_request_frees_its_slot(watch: Callable[..., WatchedEngine], turns: Turns) -> None:
    one = watch(1, 2)
    turns.of[1] = 60
    gate = one._gates["step"]
    gate.allow(8)  # more than the four frames of the first chunk, fewer than the turn has
    first = one.speak_seed(1, text="A sentence that is long enough to be spoken for quite a while.")
    chunk = next(first)
    until(lambda: gate.arrived)
    second = one.send(one.speak_seed(2))
    one.pass_once("step")
    status = one.engine.status()
    assert (status.speaking, status.waiting, status.slots, status.device_memory) == (1, 1, 1, None)
    first.cancel()
    assert one.engine.status().speaking == 0
    one.open_gates()
    assert second.ended()
    assert list(first) == []
    assert first.result is not None
    assert (first.result.stop_reason, first.result.frames) == ("cancelled", chunk.frames)
    (part,) = first.result.segments
    assert (part.stop_reason, part.frames, part.attempts) == ("cancelled", chunk.frames, 1)
    steps = [seeds for name, seeds in one.calls if name == "step"]
    assert steps.index((2,)) < 60 - turns.frames  # before the first would have ended
    assert (1,) not in steps[steps.index((2,)) :]
    one.assert_idle()


def test_cancelled_waiting_request_is_skipped(watch: Callable[..., WatchedEngine], turns: Turns) -> None:
    one = watch(1, 3)
    readers = [one.stop("step", lambda: one.read(1)), *(one.send(one.speak_seed(seed)) for seed in (2, 3))]
    one.pass_once("step")
    assert one.engine.status().waiting == 2
    readers[1].speech.cancel()
    assert one.engine.status().waiting == 1
    assert readers[1].ended("cancelled")  # while the engine's thread is stopped
    one.open_gates()
    assert readers[0].ended()
    assert readers[2].ended()
    assert one.begun_seeds() == [1, 3]
    one.assert_idle()


def test_cancelled_prefill_stops(watch: Callable[..., WatchedEngine], long_voice: Voice) -> None:
    one = watch(1, 3)
    first = one.stop("prefill", lambda: one.read(1, long_voice))
    second = one.send(one.speak_seed(2))
    one.pass_once("prefill")
    assert (one.engine.status().speaking, one.engine.status().waiting) == (0, 1)
    first.speech.cancel()
    assert first.ended("cancelled")
    one.open_gates()
    assert second.ended()
    assert one.calls.count(("prefill", (1,))) == 2  # one had passed the gate, one was waiting at it
    assert ("step", (1,)) not in one.calls
    one.assert_idle()


def test_request_cancelled_before_reading_never_begins(watch: Callable[..., WatchedEngine]) -> None:
    one = watch(1, 0)
    speech = one.speak_seed(1)
    speech.cancel()
    speech.cancel()
    assert list(speech) == []
    assert speech.result is not None
    assert (speech.result.stop_reason, speech.result.frames, speech.result.segments) == ("cancelled", 0, ())
    assert list(one.speak_seed(2))
    assert one.begun_seeds() == [2]
    one.assert_idle()


# --- stalled readers and order --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "graphs"), [(1, "off"), (2, "frame")])
def test_stalled_readers_do_not_block_others(
    watch: Callable[..., WatchedEngine], turns: Turns, slots: int, graphs: GraphMode
) -> None:
    some = watch(slots, 20, graphs)
    turns.frames = 9  # several chunks, of which these readers take the first
    stopped = [some.speak_seed(seed) for seed in range(2 * slots + 3)]
    for speech in stopped:
        assert run_with_timeout(lambda speech=speech: next(speech)).start == 0  # type: ignore[misc]
    assert [some.read(seed).ended() for seed in (50, 51)] == [True, True]
    until(lambda: len(some.codec_worker._free) == 2 * slots)
    assert some.engine.status().speaking == 0
    assert len(some.scheduler.open_tickets()) == len(stopped)
    for speech in stopped:  # the remaining chunks are still available
        run_with_timeout(lambda speech=speech: list(speech))  # type: ignore[misc]
        assert speech.result is not None
        assert speech.result.frames == turns.frames
    some.assert_idle()


def test_requests_are_served_in_order_of_arrival(watch: Callable[..., WatchedEngine]) -> None:
    one = watch(1, 9)
    readers = [one.stop("step", lambda: one.read(0))]
    speeches = [one.speak_seed(seed) for seed in range(1, 7)]  # order of arrival
    random.Random(3).shuffle(speeches)
    for speech in speeches:  # read in another order
        readers.append(one.send(speech))
        if len(readers) % 3 == 0:
            one.pass_once("step")
    assert one.engine.status().waiting >= 5
    one.open_gates()
    assert all(reader.ended() for reader in readers)
    assert one.begun_seeds() == list(range(7))
    one.assert_idle()


def test_long_prefill_alternates_with_frames_of_others(
    watch: Callable[..., WatchedEngine], turns: Turns, long_voice: Voice
) -> None:
    two = watch(2, 2)
    turns.frames = 12
    readers = [two.stop("step", lambda: two.read(1)), two.send(two.speak_seed(2, long_voice))]
    two.open_gates()
    assert all(reader.ended() for reader in readers)
    pieces = [i for i, call in enumerate(two.calls) if call == ("prefill", (2,))]
    assert len(pieces) > 3
    for one, other in pairwise(pieces):
        assert two.calls[one + 1 : other] == [("step", (1,))]
    assert ("step", (1, 2)) in two.calls
    two.assert_idle()


# --- failures ------------------------------------------------------------------------------------------------------

FAILURES = [RuntimeError("out of memory on the device\nand a page of advice"), ValueError("a prompt of 1 position")]


def is_failure_message(message: str, error: Exception) -> bool:
    assert "\n" not in message
    assert "Traceback" not in message
    return message == f"The model failed while it was speaking ({str(error).splitlines()[0]}); try again."


@pytest.mark.parametrize(("call", "error"), list(zip(["begin", "prefill"], FAILURES, strict=True)))
def test_failed_prefill_ends_only_its_request(
    watch: Callable[..., WatchedEngine], turns: Turns, call: str, error: Exception
) -> None:
    two = watch(2, 2)
    alone = take(run_with_timeout(lambda: list(two.speak_seed(1))))
    two.failing = lambda made: error if made == (call, (2,)) else None
    readers = [two.stop("begin", lambda: two.read(1)), *(two.send(two.speak_seed(seed)) for seed in (2, 3))]
    two.open_gates()
    assert is_failure_message(readers[1].failed(EngineFailed), error)
    assert readers[0].ended()
    assert readers[2].ended()
    assert_same_audio(take(readers[0].chunks), alone)
    assert two.read(4).ended()
    assert not any(2 in seeds for name, seeds in two.calls if name == "step")
    two.assert_idle()


@pytest.mark.parametrize(("when", "error"), list(zip(["started", "read"], FAILURES, strict=True)))
def test_failed_frame_ends_only_its_requests(
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
    readers = [two.stop("begin", lambda: two.read(1)), *(two.send(two.speak_seed(seed)) for seed in (2, 3))]
    two.open_gates()
    assert all(is_failure_message(reader.failed(EngineFailed), error) for reader in readers[:2])
    assert readers[2].ended()
    assert two.read(4).ended()
    assert failed
    two.assert_idle()


def test_codec_worker_knows_when_the_engine_is_idle(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    idle_states: list[bool] = []
    monkeypatch.setattr(CodecWorker, "set_engine_idle", lambda _worker, idle: idle_states.append(idle))
    one = watch(1, 2)
    assert one.read(1).ended()
    until(lambda: bool(idle_states) and idle_states[-1])
    assert False in idle_states


def test_failed_decoding_ends_only_its_request(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = watch(1, 2)
    decode_step, errors = CodecDecoder.decode_step, list(FAILURES[:1])

    def failing(self: CodecDecoder, codes: Tensor, state: DecoderState) -> Tensor:
        if errors:
            raise errors.pop()
        return decode_step(self, codes, state)

    monkeypatch.setattr(CodecDecoder, "decode_step", failing)
    assert is_failure_message(one.read(1).failed(EngineFailed), FAILURES[0])
    assert one.read(2).ended()
    one.assert_idle()


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_failed_loop_ends_all_requests(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    one = watch(1, 5)
    readers = [one.stop("step", lambda: one.read(1)), one.send(one.speak_seed(2))]
    one.pass_once("step")
    readers.append(one.send(one.speak_seed(3)))
    unread_speech, failing = one.speak_seed(5), Gate()

    def plan() -> None:
        failing.pass_through()
        raise error

    monkeypatch.setattr(one.scheduler, "plan", plan)
    failing.allow(0)
    one.open_gates()
    until(lambda: failing.arrived)
    readers.append(one.send(one.speak_seed(4)))  # not admitted yet when the loop fails
    failing.allow(1)
    assert all(is_failure_message(reader.failed(EngineFailed), error) for reader in readers)
    with pytest.raises(EngineClosed):
        run_with_timeout(lambda: list(unread_speech))
    for seed in (6, 7):
        with pytest.raises(EngineClosed):
            run_with_timeout(lambda seed=seed: list(one.speak_seed(seed)))  # type: ignore[misc]
    run_with_timeout(one.loop._thread.join)
    assert len(one.scheduler.open_tickets()) == 0
    run_with_timeout(one.engine.close)
    assert not one.codec_worker._thread.is_alive()


def test_lost_device_stops_the_engine(watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    """After some errors, a GPU refuses all further work of the process."""
    one = watch(1, 2)
    readers = [one.stop("step", lambda: one.read(1)), one.send(one.speak_seed(2))]
    assert one.engine.failure is None
    one.failing = lambda call: FAILURES[0] if call[0] == "step" else None
    monkeypatch.setattr(ModelRunner, "is_lost", property(lambda _: True))
    one.open_gates()
    assert all(is_failure_message(reader.failed(EngineFailed), FAILURES[0]) for reader in readers)
    run_with_timeout(one.loop._thread.join)
    assert isinstance(one.engine.failure, EngineClosed)
    with pytest.raises(EngineClosed):
        one.speak_seed(3)


# --- the end -------------------------------------------------------------------------------------------------------


def test_close_ends_speaking_waiting_and_decoding_requests(
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
    turns.frames = 13  # several chunks: the first is decoded, the second is being decoded, the others wait
    done = one.read(1)
    until(lambda: done.chunks)
    until(lambda: not one.loop._turns)
    readers = [done, one.stop("step", lambda: one.read(2)), one.send(one.speak_seed(3))]
    one.pass_once("step")
    readers.append(one.send(one.speak_seed(4)))  # not admitted yet
    unread_speech = one.speak_seed(5)
    assert (one.engine.status().speaking, one.engine.status().waiting) == (1, 1)
    assert {"reprise-decoding", "reprise-engine"} <= set(ours())
    closing = BackgroundCall().start(one.engine.close)
    until(lambda: one.loop._inbox.closed)
    one.open_gates()
    until(lambda: one.codec_worker._inbox.closed)
    decodable.release(99)
    closing.join()
    assert closing.error is None
    assert all("not running" in reader.failed(EngineClosed) for reader in readers)
    assert done.chunks
    assert one.begun_seeds() == [1, 2]
    with pytest.raises(EngineClosed):
        run_with_timeout(lambda: list(unread_speech))
    with pytest.raises(EngineClosed):
        one.speak_seed(6)
    assert ours() == []
    run_with_timeout(one.engine.close)
    assert len(one.scheduler.open_tickets()) == 0


@pytest.mark.usefixtures("shared_weights")
def test_unused_engine_can_be_closed() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, queue=0, graphs="off")
    run_with_timeout(engine.close)
    run_with_timeout(engine.close)
    assert not engine._pipeline.loop._thread.is_alive()


# --- status and timing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graphs", ["frame", "fast", "off"])
def test_status_reports_graph_mode(watch: Callable[..., WatchedEngine], graphs: GraphMode) -> None:
    one = watch(1, 1, graphs)
    assert one.engine.status().graphs == graphs
    assert one.read(1).ended()
    assert one.engine.status().graphs == graphs


@pytest.mark.parametrize(("graphs", "message"), [("frame", "\nno tracer here:"), ("fast", "no tracer here:\nat all")])
def test_failed_capture_is_reported_and_speech_continues(
    watch: Callable[..., WatchedEngine], monkeypatch: pytest.MonkeyPatch, graphs: GraphMode, message: str
) -> None:
    def capture(*_: object) -> None:
        raise RuntimeError(message)  # errors of PyTorch's tracer begin with an empty line

    alone = take(run_with_timeout(lambda: list(watch(1, 1).speak_seed(1))))
    monkeypatch.setattr(TorchScriptCapture, "capture", capture)
    one = watch(1, 1, graphs)
    assert one.engine.status().graphs == "off: they could not be captured (no tracer here:)"
    reader = one.read(1)
    assert reader.ended()
    assert_same_audio(take(reader.chunks), alone)


def test_status_counts_speaking_and_waiting_requests(watch: Callable[..., WatchedEngine]) -> None:
    two = watch(2, 4)
    assert (two.engine.status().slots, two.engine.status().speaking, two.engine.status().waiting) == (2, 0, 0)
    readers = [two.stop("step", lambda: two.read(1)), *(two.send(two.speak_seed(seed)) for seed in (2, 3, 4))]
    for speaking, waiting in ((1, 2), (2, 2)):  # the second prompt is read after the first one's frame
        two.pass_once("step")
        assert (two.engine.status().speaking, two.engine.status().waiting) == (speaking, waiting)
    two.open_gates()
    assert all(reader.ended() for reader in readers)
    two.assert_idle()


def test_stage_times_sum_to_first_audio(watch: Callable[..., WatchedEngine], long_voice: Voice) -> None:
    two = watch(2, 4)
    takes = []
    for known in (False, True):
        reader = two.read(1, long_voice)
        assert reader.ended()
        takes.append(take(reader.chunks))
        result = reader.speech.result
        assert result is not None
        timings = result.first_audio_timings
        assert timings is not None
        parts = (timings.queue, timings.prefill, timings.frames, timings.decode)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(result.first_audio)
        assert result.first_audio == reader.chunks[0].elapsed
        assert (3 * PREFILL_CHUNK < timings.reused < timings.positions) if known else timings.reused == 0
    assert_same_audio(*takes)


@pytest.mark.parametrize("other", [True, False])
def test_cached_voice_is_reused_in_any_slot(
    watch: Callable[..., WatchedEngine], long_voice: Voice, other: bool
) -> None:
    two = watch(2, 4)
    alone = take(run_with_timeout(lambda: list(two.speak_seed(1, long_voice))))
    # The other request takes the slot that held the voice.
    first = two.stop("step", lambda: two.read(2)) if other else None
    second = two.send(two.speak_seed(1, long_voice)) if other else two.read(1, long_voice)
    two.open_gates()
    assert second.ended()
    assert first is None or first.ended()
    assert second.speech.result is not None
    assert second.speech.result.first_audio_timings is not None
    assert second.speech.result.first_audio_timings.reused > 3 * PREFILL_CHUNK  # the whole voice
    assert_same_audio(take(second.chunks), alone)
    two.assert_idle()


def reused(reader: Reader) -> int:
    """Wait for the end of a speech; return the positions of its first prompt that were not computed for it."""
    assert reader.ended()
    assert reader.speech.result is not None
    assert reader.speech.result.first_audio_timings is not None
    return reader.speech.result.first_audio_timings.reused


def wait_for_preparations(one: WatchedEngine) -> None:
    until(lambda: not one.loop._to_prepare and one.loop.idle_work._idle)


def test_prepared_voice_is_reused_by_its_first_speech(watch: Callable[..., WatchedEngine], long_voice: Voice) -> None:
    one = watch(1, 4)
    first = one.read(1, long_voice)
    assert reused(first) == 0
    until(lambda: not one.scheduler.open_tickets())
    one.engine.forget(long_voice)
    until(lambda: one.engine.status().prefix_cache_bytes == (0, 0))
    one.engine.prepare(replace(long_voice, codec_fingerprint="another"))
    one.engine.prepare(long_voice)
    wait_for_preparations(one)
    assert ("begin", (-1,)) in one.calls
    again = one.read(1, long_voice)
    assert reused(again) > 3 * PREFILL_CHUNK
    assert_same_audio(take(again.chunks), take(first.chunks))
    one.assert_idle()


def test_a_cached_voice_is_not_prepared_again(watch: Callable[..., WatchedEngine], long_voice: Voice) -> None:
    """The slot still holds the text that was spoken in it."""
    one = watch(1, 4)
    assert reused(one.read(1, long_voice)) == 0
    until(lambda: not one.scheduler.open_tickets())
    one.engine.prepare(long_voice)
    wait_for_preparations(one)
    assert ("begin", (-1,)) not in one.calls
    again = one.read(1, long_voice)
    assert reused(again) == again.speech.result.first_audio_timings.positions - 1  # type: ignore[union-attr]
    one.assert_idle()


def test_preparation_gives_way_to_requests_and_goes_on_when_they_have_left(
    watch: Callable[..., WatchedEngine], voice: Voice, long_voice: Voice
) -> None:
    one = watch(1, 4)
    one.stop("prefill", lambda: one.engine.prepare(long_voice))
    first = one.send(one.speak_seed(1))
    one.engine.prepare(voice)
    one.open_gates()
    assert first.ended()
    wait_for_preparations(one)
    calls = [(name, *seeds) for name, seeds in one.calls]
    assert calls[:3] == [("begin", -1), ("prefill", -1), ("begin", 1)]
    assert calls.count(("begin", -1)) == 3
    assert calls.index(("begin", -1), 1) > calls.index(("step", 1))
    assert reused(one.read(2, long_voice)) > 3 * PREFILL_CHUNK
    one.assert_idle()


@pytest.mark.parametrize("later", [1, _PREPARED])
def test_voices_that_are_chosen_later_are_prepared_first(
    watch: Callable[..., WatchedEngine], voice: Voice, long_voice: Voice, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    one, begun = watch(1, 4), list[int]()
    begin = one.engine._runner.begin

    def noted(slot: int, prompt: Prompt, *given: Any) -> int:
        begun.append(prompt.shared)
        return begin(slot, prompt, *given)

    monkeypatch.setattr(one.engine._runner, "begin", noted)
    one.stop("prefill", lambda: one.engine.prepare(long_voice))
    for code in range(later):
        one.engine.prepare(with_first_code(voice, code))
    one.open_gates()
    wait_for_preparations(one)
    long, short = begun[:2]
    assert long > short
    assert begun == [long] + [short] * later + [long] * (later < _PREPARED)
    one.assert_idle()


def test_a_speech_goes_on_from_a_preparation_that_gave_way(
    watch: Callable[..., WatchedEngine], long_voice: Voice
) -> None:
    one = watch(1, 4)
    one.stop("prefill", lambda: one.engine.prepare(long_voice))
    one.pass_once("prefill")
    speech = one.send(one.speak_seed(1, long_voice))
    one.open_gates()
    assert reused(speech) == 2 * PREFILL_CHUNK
    one.assert_idle()


def test_a_voice_forgotten_while_it_is_prepared_is_not_cached(
    watch: Callable[..., WatchedEngine], voice: Voice, long_voice: Voice
) -> None:
    one = watch(1, 4)
    one.stop("prefill", lambda: one.engine.prepare(long_voice))
    one.engine.prepare(voice)
    one.engine.forget(long_voice)
    one.engine.forget(voice)
    one.open_gates()
    wait_for_preparations(one)
    assert one.engine.status().prefix_cache_bytes == (0, 0)
    assert reused(one.read(1, long_voice)) == 0
    one.assert_idle()


def test_voice_that_does_not_fit_the_context_is_not_prepared(
    watch: Callable[..., WatchedEngine], long_voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = watch(1, 4)
    conditioner, usual = one.engine._conditioner, one.engine._pipeline
    (prefix,) = usual.prompts.prefixes(conditioner._prompted(conditioner.references(long_voice)))
    prepared: list[int] = []
    monkeypatch.setattr(one.loop, "prepare", lambda prefix: prepared.append(prefix.columns.shape[1]))
    for more in (1, 2):  # for a text
        monkeypatch.setattr(conditioner, "_pipeline", replace(usual, positions=prefix.columns.shape[1] + more))
        one.engine.prepare(long_voice)
    assert prepared == [prefix.columns.shape[1]]


def test_failed_preparation_is_left_to_the_speech(
    watch: Callable[..., WatchedEngine], long_voice: Voice, caplog: pytest.LogCaptureFixture
) -> None:
    one = watch(1, 4)
    one.failing = lambda made: RuntimeError("out of memory") if made == ("prefill", (-1,)) else None
    one.engine.prepare(long_voice)
    until(lambda: "out of memory" in caplog.text)
    assert reused(one.read(1, long_voice)) == 0
    one.assert_idle()


@pytest.mark.usefixtures("shared_weights")
def test_stashed_turns_replace_earlier_ones_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, queue=0, graphs="off")
    try:
        loop = engine._pipeline.loop
        keys, dropped = iter([b"first", b"second", b"second"]), list[bytes]()
        monkeypatch.setattr(loop._runner, "stash", lambda slot: next(keys))
        monkeypatch.setattr(loop._runner, "drop_stash", dropped.append)
        ticket, _ = loop.enter("ann", 15.0)
        loop._stash(0, ticket)
        loop._stash(0, ticket)
        assert dropped == [b"first"]
        loop._stash(0, ticket)  # nothing has been accepted since
        assert dropped == [b"first"]
        assert loop._stashed == {ticket: b"second"}
    finally:
        engine.close()
