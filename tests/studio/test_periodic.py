"""Periodic work: begins at once, repeats, and ends with its context."""

import logging
import threading

import pytest

from studio.periodic import every


def test_work_repeats_until_the_context_ends() -> None:
    done: list[int] = []
    thrice = threading.Event()

    def work() -> None:
        done.append(1)
        if len(done) == 3:
            thrice.set()

    with every(0.001, work):
        assert thrice.wait(60)
    count = len(done)
    assert "reprise-every" not in {thread.name for thread in threading.enumerate()}
    assert len(done) == count


def test_context_ends_without_waiting_for_the_interval() -> None:
    began = threading.Event()
    with every(3600, began.set):
        assert began.wait(60)
    assert "reprise-every" not in {thread.name for thread in threading.enumerate()}


def test_failure_is_logged_and_work_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        if len(tries) > 1:
            again.set()
        raise RuntimeError("The disk is full.")

    with caplog.at_level(logging.ERROR), every(0.001, fail):
        assert again.wait(60)
    assert "The disk is full." in caplog.text
