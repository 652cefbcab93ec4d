"""What the command line shows."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from engine.errors import DatabaseUnavailable, RepriseError


@contextmanager
def sentences() -> Iterator[None]:
    """Errors as one sentence, for a database with its place on a second line, and exit status 1."""
    try:
        yield
    except (RepriseError, OSError) as error:
        say(str(error))
        if isinstance(error, DatabaseUnavailable) and error.detail:
            say(error.detail)
        raise typer.Exit(1) from error


def say(text: str) -> None:
    """A sentence for the person; standard output is left to results."""
    typer.echo(text, err=True)


def line(text: str) -> None:
    """One line that the next one replaces; nothing where no one watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


@contextmanager
def ctrl_c(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls `stop`, the second does what it always does."""

    def first(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
