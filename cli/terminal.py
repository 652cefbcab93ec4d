"""Messages, errors and Ctrl-C in a terminal."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, TextIO

import typer

from engine.errors import InvalidInput, RepriseError
from storage.errors import DatabaseUnavailable


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print an error as one sentence, with a database's details on a second line, and exit with status 1.

    A reader that has closed the pipe, such as `head`, is left to Typer, which exits without a message.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (RepriseError, OSError) as error:
        say(_sentence(error))
        if isinstance(error, DatabaseUnavailable) and error.detail:
            say(error.detail)
        raise typer.Exit(1) from error


def escape_unprintable() -> None:
    """Print characters that standard output cannot encode as escapes, as on standard error, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print a message on standard error; standard output is for results."""
    typer.echo(text, err=True)


def print_secret(text: str) -> None:
    """Print what cannot be shown again on standard output. Raises OSError if nobody can read it there."""
    if sys.stdout is None:  # closed before Python started; echo would print nothing
        raise OSError("Standard output is closed.")
    typer.echo(text)


def print_file(data: bytes) -> None:
    """Write a file to standard output. Raises what `check_pipe` raises."""
    check_pipe()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def check_pipe() -> None:
    """Raise OSError if standard output is closed, InvalidInput if it is a terminal."""
    if sys.stdout is None:
        raise OSError("Standard output is closed.")
    if is_terminal(sys.stdout):
        raise InvalidInput("The file is not text: write it to a file or a program, not to the terminal.")


def standard_input(most: int) -> bytes:
    """Return standard input; of more than `most` bytes, one more than these. Empty if it is closed."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read(most + 1)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a standard stream is a terminal. It is None if it was closed before Python started."""
    return stream is not None and stream.isatty()


def status_line(text: str) -> None:
    """Replace the current line of the terminal. Prints nothing if standard error is not a terminal."""
    if is_terminal(sys.stderr):
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


@contextmanager
def exit_on_signal(number: int = signal.SIGTERM) -> Iterator[None]:
    """Leave the block on a signal, and exit with status 0, as a server that was told to stop.

    Without a handler, the first process of a container ignores SIGTERM.
    """

    def leave(_number: int, _frame: Any) -> None:
        raise SystemExit(0)

    try:
        before = signal.signal(number, leave)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def exit_at_once() -> Iterator[None]:
    """End the process where the block exits, or where its reader has closed the pipe.

    A thread may still be reading standard input, and Python waits for it.
    """
    try:
        yield
    except* (SystemExit, BrokenPipeError):
        os._exit(0)


def exit_on_next_ctrl_c() -> None:
    """Let Ctrl-C end the process at once, without a traceback; for its exit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def on_ctrl_c(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first Ctrl-C; the second has its usual effect."""

    def first(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _sentence(error: Exception) -> str:
    """Return an error as a sentence; one of the system with its file and without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{where}{error.strerror}."
