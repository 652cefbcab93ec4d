"""Slots are granted in the order of requests, fairly between owners."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from studio.script.fair_semaphore import FairSemaphore
from tests.support.waiting import until


def test_slots_are_granted_in_order_and_bounded() -> None:
    slots = FairSemaphore(lambda: 2)
    order: list[int] = []
    go = [threading.Event() for _ in range(5)]

    def take(number: int) -> None:
        with slots.slot():
            order.append(number)
            go[number].wait(30)

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=take, args=(number,), daemon=True))
        threads[-1].start()
        until(partial(lambda n: len(order) == min(2, n + 1) and len(slots._queue) == max(0, n - 1), number))
    assert sorted(order) == [0, 1]
    for number in range(5):
        go[number].set()
        until(partial(lambda n: len(order) == min(5, n + 3), number))
    assert order[2:] == [2, 3, 4]
    for thread in threads:
        thread.join(30)


def test_failed_holder_releases_its_slot() -> None:
    slots = FairSemaphore(lambda: 1)
    for _ in range(2):
        try:
            with slots.slot():
                raise ValueError
        except ValueError:
            continue
    with slots.slot():
        assert True, "the slot is free"


def test_number_of_slots_can_grow() -> None:
    count = 1
    slots = FairSemaphore(lambda: count)
    with slots.slot():
        count = 2
        with slots.slot():
            assert slots._held.total() == 2


def test_owner_with_the_fewest_slots_is_next() -> None:
    slots = FairSemaphore(lambda: 2)
    order: list[str] = []
    threads: list[threading.Thread] = []
    go = [threading.Event() for _ in range(6)]

    def take(number: int, owner: str) -> None:
        with slots.slot(owner):
            order.append(owner)
            go[number].wait(30)

    for number, owner in enumerate(("ann", "ann", "ann", "ann", "ben", "carl")):
        threads.append(threading.Thread(target=take, args=(number, owner), daemon=True))
        threads[-1].start()
        until(partial(lambda n: len(order) + len(slots._queue) == n + 1, number))
    for number, comes in ((0, "ben"), (1, "ann"), (4, "carl")):
        before = len(order)
        go[number].set()
        until(partial(lambda n: len(order) == n + 1, before))
        assert order[-1] == comes
    for each in go:
        each.set()
    for thread in threads:
        thread.join(30)
    assert not slots._held


def test_slots_freed_at_once_are_both_granted() -> None:
    """The one with the longer wait wakes first, but has to wait until the one with fewer slots has one."""
    slots = FairSemaphore(lambda: 3)
    order: list[str] = []
    go = threading.Event()

    def take(owner: str) -> None:
        with slots.slot(owner):
            order.append(owner)
            go.wait(30)

    threads = [threading.Thread(target=take, args=(owner,), daemon=True) for owner in ("ann", "carl")]
    with slots.slot("ann"), ExitStack() as ben:
        for _ in range(2):
            ben.enter_context(slots.slot("ben"))
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(partial(lambda n: len(slots._queue) == n, number))
        with slots._changed:
            ben.close()
        until(lambda: order == ["carl", "ann"])
    go.set()
    for thread in threads:
        thread.join(30)


def test_a_waiter_whose_count_fails_keeps_no_place() -> None:
    counts: Iterator[Exception | int] = iter([ConnectionError("no engine"), 1, 1])

    def count() -> int:
        found = next(counts)
        if isinstance(found, Exception):
            raise found
        return found

    slots = FairSemaphore(count)
    with pytest.raises(ConnectionError), slots.slot("ann"):
        pass
    with slots._changed:
        assert slots._queue == []
    with slots.slot("ben"):
        assert list(slots._held) == ["ben"]
