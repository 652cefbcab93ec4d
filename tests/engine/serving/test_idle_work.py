"""Idle work runs only while the engine is idle, and ends when it closes."""

import threading
from collections.abc import Callable, Iterator

import pytest

from engine.engine import Engine
from engine.serving import idle_work as module
from engine.serving.idle_work import IdleWork
from tests.paths import CLIP, MINIATURE
from tests.support.waiting import TIMEOUT, until


@pytest.fixture(autouse=True)
def no_quiet_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", 0.0)


@pytest.fixture
def work() -> Iterator[IdleWork]:
    made = IdleWork()
    yield made
    made.close()


def thread_of(work: IdleWork) -> threading.Thread:
    assert work._thread is not None
    return work._thread


def test_each_step_waits_until_the_engine_is_idle(work: IdleWork) -> None:
    done: list[int] = []
    ran = threading.Semaphore(0)

    def step(number: int) -> Callable[[], None]:
        def run() -> None:
            done.append(number)
            work.set_idle(False)  # a request arrives during the step
            ran.release()

        return run

    work.begin([step(1), step(2)])
    work.begin([step(3)])
    for number in (1, 2):
        assert done == list(range(1, number))
        work.set_idle(True)
        assert ran.acquire(timeout=TIMEOUT)
        assert done == list(range(1, number + 1))
    thread_of(work).join(TIMEOUT)
    assert done == [1, 2]


def test_request_restarts_the_quiet_time(work: IdleWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", TIMEOUT)
    done: list[int] = []
    work.begin([lambda: done.append(1)])
    for idle in (True, False, True):
        work.set_idle(idle)
    work.close()
    assert done == []
    assert not thread_of(work).is_alive()


def test_failed_step_is_logged_and_ends_the_work(work: IdleWork, caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def fail() -> None:
        raise MemoryError("none left")

    work.set_idle(True)
    work.begin([fail, lambda: done.append(1)])
    thread_of(work).join(TIMEOUT)
    assert done == []
    assert "none left" in caplog.text


def test_close_waits_for_the_step_and_prevents_further_ones() -> None:
    work, inside, gate = IdleWork(), threading.Event(), threading.Event()
    done: list[int] = []

    def long() -> None:
        inside.set()
        assert gate.wait(TIMEOUT)
        done.append(1)

    work.set_idle(True)
    work.begin([long, lambda: done.append(2)])
    assert inside.wait(TIMEOUT)
    closing = threading.Thread(target=work.close)
    closing.start()
    gate.set()
    closing.join(TIMEOUT)
    assert done == [1]
    never = IdleWork()
    never.close()
    never.begin([lambda: done.append(3)])
    assert never._thread is None


@pytest.mark.usefixtures("shared_weights")
def test_idle_engine_loads_its_encoder() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    try:
        thread = thread_of(engine._pipeline.loop.idle_work)
        until(lambda: not thread.is_alive())
        encoder = engine._conditioner._encoder._encoder
        assert encoder is not None
        engine.encode_voice("Slt", [(CLIP, "The words of the clip.")])
        assert engine._conditioner._encoder._encoder is encoder, "the encoder must be loaded once"
    finally:
        engine.close()


@pytest.mark.usefixtures("shared_weights")
def test_engine_closed_at_once_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", TIMEOUT)
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    engine.close()
    assert not thread_of(engine._pipeline.loop.idle_work).is_alive()
    assert engine._conditioner._encoder._encoder is None
