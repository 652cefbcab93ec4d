"""Inbox: messages arrive in order, none is lost, and no thread hangs when the garbage collector runs."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from engine.serving.inbox import Inbox
from tests.support.waiting import until

WAIT = 30.0  # seconds until a test counts as hanging, ten times what any test needs


class Garbage:
    """Part of a reference cycle, so that only the garbage collector frees it."""

    def __init__(self, finalizer: Callable[[], None]) -> None:
        self.itself = self
        weakref.finalize(self, finalizer)


def finishes(work: Callable[[], object]) -> bool:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WAIT)
    return not thread.is_alive()


def test_messages_are_read_in_sending_order() -> None:
    inbox: Inbox[int] = Inbox()
    assert [inbox.send(i) for i in range(5)] == [True] * 5
    assert not inbox.empty
    assert inbox.read() == [0, 1, 2, 3, 4]
    assert inbox.empty
    assert inbox.read() == []


def test_wait_returns_all_messages() -> None:
    inbox: Inbox[str] = Inbox()
    for message in ("a", "b", "c"):
        inbox.send(message)
    assert inbox.wait() == ["a", "b", "c"]
    assert inbox.read() == []


def test_falsy_messages_are_delivered() -> None:
    inbox: Inbox[object] = Inbox()
    messages: list[object] = [0, "", (), False]
    for message in messages:
        inbox.send(message)
    assert inbox.wait() == messages


def test_wait_blocks_until_a_message() -> None:
    inbox: Inbox[int] = Inbox()
    got: list[list[int]] = []
    reader = threading.Thread(target=lambda: got.append(inbox.wait()), daemon=True)
    reader.start()
    assert got == []  # no message has been sent yet
    inbox.send(7)
    reader.join(WAIT)
    assert got == [[7]]


def test_wake_returns_without_a_message() -> None:
    inbox: Inbox[int] = Inbox()
    got: list[list[int]] = []
    reader = threading.Thread(target=lambda: got.append(inbox.wait()), daemon=True)
    reader.start()
    inbox.wake()
    reader.join(WAIT)
    assert got == [[]]


def test_wakes_between_messages_are_not_read() -> None:
    inbox: Inbox[int] = Inbox()
    inbox.send(1)
    inbox.wake()
    inbox.send(2)
    inbox.wake()
    assert inbox.wait() == [1, 2]
    inbox.wake()
    assert inbox.read() == []


def test_closed_inbox_rejects_messages_but_can_be_read() -> None:
    inbox: Inbox[int] = Inbox()
    assert inbox.send(1)
    assert not inbox.closed
    inbox.close()
    assert inbox.closed
    assert not inbox.send(2)
    assert inbox.wait() == [1]
    assert not inbox.send(3)
    assert inbox.read() == []


def test_close_wakes_the_reader() -> None:
    inbox: Inbox[int] = Inbox()
    assert finishes(lambda: (inbox.close(), inbox.wait()))
    inbox.close()
    inbox.wake()  # as finalizers do after the end
    assert inbox.closed


def test_concurrent_senders_lose_nothing_and_keep_order() -> None:
    inbox: Inbox[tuple[int, int]] = Inbox()
    start = threading.Barrier(8)

    def send(sender: int) -> None:
        start.wait(WAIT)
        for i in range(500):
            inbox.send((sender, i))
            if i % 7 == 0:
                inbox.wake()

    senders = [threading.Thread(target=send, args=(i,), daemon=True) for i in range(8)]
    for thread in senders:
        thread.start()
    found: list[tuple[int, int]] = []
    while len(found) < 8 * 500:
        found += inbox.wait()
    for thread in senders:
        thread.join(WAIT)
    assert inbox.read() == []
    for sender in range(8):
        assert [i for who, i in found if who == sender] == list(range(500))


def test_accepted_messages_are_read_during_close() -> None:
    """Threads send while another closes: `send` returns True for exactly the messages that are read."""
    for _ in range(30):
        inbox: Inbox[tuple[int, int]] = Inbox()
        accepted: list[tuple[int, int]] = []
        start = threading.Barrier(4)

        def send(
            sender: int,
            inbox: Inbox[tuple[int, int]] = inbox,
            accepted: list[tuple[int, int]] = accepted,
            start: threading.Barrier = start,
        ) -> None:
            start.wait(WAIT)
            accepted.extend((sender, i) for i in range(200) if inbox.send((sender, i)))

        senders = [threading.Thread(target=send, args=(i,), daemon=True) for i in range(3)]
        for thread in senders:
            thread.start()
        start.wait(WAIT)
        inbox.close()
        found = inbox.read()  # as the engine's thread does at its end
        for thread in senders:
            thread.join(WAIT)
        assert sorted(found) == sorted(accepted)
        assert inbox.read() == []


@pytest.mark.usefixtures("frequent_gc")
def test_wakes_from_finalizers_do_not_block_senders() -> None:
    inbox: Inbox[list[int]] = Inbox()
    finalized: list[int] = []

    def finalizer(number: int) -> None:
        finalized.append(number)
        inbox.wake()

    def send() -> None:
        for i in range(300):
            Garbage(partial(finalizer, i))
            inbox.send([i])

    def all_finalized() -> bool:
        gc.collect()  # does nothing while another thread collects
        return len(finalized) >= 300

    assert finishes(send)
    until(all_finalized)
    assert sorted(finalized) == list(range(300))
    assert inbox.read() == [[i] for i in range(300)]


def test_wake_may_interrupt_send_at_any_line() -> None:
    """The garbage collector may run finalizers there, even while the sender holds locks."""
    inbox: Inbox[str] = Inbox()
    interrupted: list[str] = []

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        interrupted.append(frame.f_code.co_name)
        inbox.wake()
        return interrupt

    def work() -> None:
        sys.settrace(interrupt)  # of this thread only
        inbox.send("a")
        inbox.close()
        inbox.send("b")
        sys.settrace(None)

    assert finishes(work)
    assert {"send", "close"} <= set(interrupted)
    assert inbox.read() == ["a"]
