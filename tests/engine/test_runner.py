"""The lock that lets requests advance in turn."""

import itertools
import threading
import time

from engine.runner import FairLock


def test_the_lock_is_handed_on_in_the_order_of_asking() -> None:
    lock, order = FairLock(), []

    def work(number: int) -> None:
        with lock():
            order.append(number)

    with lock():
        threads = []
        for number in range(8):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            while len(lock._waiting) <= number:  # asked before the next one does
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_nobody_takes_it_twice_in_a_row_while_another_waits() -> None:
    lock, turns = FairLock(), []

    def work(name: str) -> None:
        for _ in range(50):
            with lock():
                turns.append(name)
                time.sleep(0.0005)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first_done = min(max(i for i, t in enumerate(turns) if t == name) for name in "ab")
    both = turns[turns.index("b" if turns[0] == "a" else "a") : first_done]
    assert all(a != b for a, b in itertools.pairwise(both))


def test_an_error_inside_gives_it_back() -> None:
    lock = FairLock()
    for _ in range(2):
        try:
            with lock():
                raise ValueError
        except ValueError:
            continue
    assert not lock._taken
