"""Work ahead of time: only while the engine is idle, and ended with it."""

import threading
from collections.abc import Callable, Iterator

import pytest

from engine.engine import Engine
from engine.serving import idle_work as module
from engine.serving.idle_work import IdleWork
from tests.paths import CLIP, MINIATURE
from tests.support.waiting import PATIENCE, until


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", 0.0)


@pytest.fixture
def work() -> Iterator[IdleWork]:
    made = IdleWork()
    yield made
    made.close()


def thread_of(work: IdleWork) -> threading.Thread:
    assert work._thread is not None
    return work._thread


def test_a_step_waits_until_the_engine_is_idle_and_so_does_the_next(work: IdleWork) -> None:
    done: list[int] = []
    ran = threading.Semaphore(0)

    def step(number: int) -> Callable[[], None]:
        def run() -> None:
            done.append(number)
            work.set_idle(False)  # a request comes during the step
            ran.release()

        return run

    work.begin([step(1), step(2)])
    work.begin([step(3)])
    for number in (1, 2):
        assert done == list(range(1, number))
        work.set_idle(True)
        assert ran.acquire(timeout=PATIENCE)
        assert done == list(range(1, number + 1))
    thread_of(work).join(PATIENCE)
    assert done == [1, 2]


def test_a_request_starts_the_quiet_time_anew(work: IdleWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", PATIENCE)
    done: list[int] = []
    work.begin([lambda: done.append(1)])
    for idle in (True, False, True):
        work.set_idle(idle)
    work.close()
    assert done == []
    assert not thread_of(work).is_alive()


def test_a_failure_is_logged_and_ends_it(work: IdleWork, caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def fail() -> None:
        raise MemoryError("none left")

    work.set_idle(True)
    work.begin([fail, lambda: done.append(1)])
    thread_of(work).join(PATIENCE)
    assert done == []
    assert "none left" in caplog.text


def test_closing_waits_for_the_step_and_nothing_begins_afterwards() -> None:
    work, inside, gate = IdleWork(), threading.Event(), threading.Event()
    done: list[int] = []

    def long() -> None:
        inside.set()
        assert gate.wait(PATIENCE)
        done.append(1)

    work.set_idle(True)
    work.begin([long, lambda: done.append(2)])
    assert inside.wait(PATIENCE)
    closing = threading.Thread(target=work.close)
    closing.start()
    gate.set()
    closing.join(PATIENCE)
    assert done == [1]
    never = IdleWork()
    never.close()
    never.begin([lambda: done.append(3)])
    assert never._thread is None


def test_an_idle_engine_warms_its_encoder() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    try:
        thread = thread_of(engine._pipeline.loop.idle_work)
        until(lambda: not thread.is_alive())
        encoder = engine._encoder._encoder
        assert encoder is not None
        engine.encode_voice("Slt", [(CLIP, "The words of the clip.")])
        assert engine._encoder._encoder is encoder, "loaded once"
    finally:
        engine.close()


def test_an_engine_that_is_closed_at_once_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", PATIENCE)
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    engine.close()
    assert not thread_of(engine._pipeline.loop.idle_work).is_alive()
    assert engine._encoder._encoder is None
