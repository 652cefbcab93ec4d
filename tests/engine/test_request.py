"""A speech and its reader: what is not read for long is cancelled, and a slow reader hears everything."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine import request
from engine.engine import Engine
from engine.request import UNREAD, _Events
from engine.serving.scheduler import Scheduler, Ticket
from tests.paths import MINIATURE
from tests.waiting import until


class Clock:
    now = 1_000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(request, "time", made)
    return made


def events() -> tuple[_Events, Ticket]:
    scheduler = Scheduler(1, 0)
    ticket = scheduler.enter()
    loop: Any = SimpleNamespace(leave=scheduler.leave)
    return _Events(loop, ticket), ticket


def hear(told: _Events) -> None:
    turn: Any = None
    told.heard(turn, np.zeros(4, np.float32), 1)


def test_sound_that_nobody_takes_ends_the_request(clock: Clock) -> None:
    told, ticket = events()
    clock.now += 10 * UNREAD  # waiting for a slot is no fault of the reader
    hear(told)
    clock.now += UNREAD
    hear(told)
    assert not ticket.gone
    clock.now += 1
    hear(told)
    assert (told.unread, ticket.gone) == (True, True)


def test_a_reader_may_be_slow(clock: Clock) -> None:
    told, ticket = events()
    for _ in range(50):
        hear(told)
        hear(told)
        clock.now += UNREAD
        told.get()
    assert not told.unread
    assert not ticket.gone


def test_a_reader_that_was_far_ahead_is_not_taken_for_gone(clock: Clock) -> None:
    told, ticket = events()
    hear(told)
    told.get()
    clock.now += 10 * UNREAD  # nothing was made meanwhile
    turn: Any = None
    told.ended(turn)
    hear(told)
    assert not ticket.gone


def test_a_speech_that_nobody_reads_leaves_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "UNREAD", 0.0)
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    try:
        unread = engine.speak("A sentence that is long enough for several pieces of sound.")
        next(unread)
        scheduler = engine._speaker.loop.scheduler
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
    engine.close()  # from here on nothing moves
    for each in speeches[1:]:
        engine._speaker.loop.scheduler.ask(each._request._ticket)
    assert [each.place for each in speeches] == [None, 0, 1]
    speeches[1].cancel()
    assert [each.place for each in speeches[1:]] == [None, 0]
