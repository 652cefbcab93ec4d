"""Requests and their readers: a speech that is not read is cancelled, and a slow reader gets all audio."""

from functools import partial

import numpy as np
import pytest

from engine import request
from engine.engine import Engine
from engine.request import READER_TIMEOUT
from engine.serving import turn as turn_module
from engine.serving.scheduler import Scheduler, Ticket
from engine.serving.turn import AudioDecoded, EventStream, TurnEnded
from tests.paths import MINIATURE
from tests.waiting import until


class Clock:
    now = 1_000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turn_module, "time", made)
    return made


def events() -> tuple[EventStream, Ticket]:
    scheduler = Scheduler(1, 0)
    ticket = scheduler.enter()
    return EventStream(partial(scheduler.leave, ticket), READER_TIMEOUT), ticket


def hear(told: EventStream) -> None:
    told.put(AudioDecoded(0, np.zeros(4, np.float32), 1))


def test_sound_that_nobody_takes_ends_the_request(clock: Clock) -> None:
    told, ticket = events()
    clock.now += 10 * READER_TIMEOUT  # waiting for a slot does not count
    hear(told)
    clock.now += READER_TIMEOUT
    hear(told)
    assert not ticket.gone
    clock.now += 1
    hear(told)
    assert (told.timed_out, ticket.gone) == (True, True)


def test_a_reader_may_be_slow(clock: Clock) -> None:
    told, ticket = events()
    for _ in range(50):
        hear(told)
        hear(told)
        clock.now += READER_TIMEOUT
        told.get()
    assert not told.timed_out
    assert not ticket.gone


def test_a_reader_that_was_far_ahead_is_not_taken_for_gone(clock: Clock) -> None:
    told, ticket = events()
    hear(told)
    told.get()
    clock.now += 10 * READER_TIMEOUT  # nothing arrived meanwhile
    told.put(TurnEnded(0))
    hear(told)
    assert not ticket.gone


def test_a_speech_that_nobody_reads_leaves_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "READER_TIMEOUT", 0.0)
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    try:
        unread = engine.speak("A sentence that is long enough for several pieces of sound.")
        next(unread)
        scheduler = engine._pipeline.loop.scheduler
        until(lambda: scheduler.open == 0)
        assert list(unread) == []
        assert unread.result is not None
        assert unread.result.stop_reason == "cancelled"
    finally:
        engine.close()


def test_a_speech_tells_its_place() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    speeches = [engine.speak("A sentence to say.", owner=name) for name in ("ann", "ben", "carl")]
    assert [each.place for each in speeches] == [None] * 3, "they have not asked for a turn yet"
    engine.close()  # the engine loop has ended
    for each in speeches[1:]:
        engine._pipeline.loop.scheduler.enqueue(each._request._ticket)
    assert [each.place for each in speeches] == [None, 0, 1]
    speeches[1].cancel()
    assert [each.place for each in speeches[1:]] == [None, 0]
