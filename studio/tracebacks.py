"""Formatting of errors for the log, without texts, names or values from users."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from engine.errors import EngineError, ReleaseError
from storage.errors import DatabaseUnavailable

# The messages of these errors concern the machine. Other messages may quote user input.
_SAID = (RuntimeError, MemoryError, EngineError, ReleaseError, DatabaseUnavailable)


def format_traceback(error: BaseException) -> str:
    """Format the stack frames and types of an error and its causes."""
    return "\n".join(
        f"{''.join(traceback.format_tb(each.__traceback__))}{describe_error(each)}" for each in _chain(error)
    )


def describe_error(error: BaseException) -> str:
    """Format the type of an error, with its message if that cannot contain user input."""
    name = type(error).__name__
    if isinstance(error, OSError):  # its message contains the file name, which may come from a visitor
        return f"{name}: {error.strerror}" if error.strerror else name
    return f"{name}: {error}" if isinstance(error, _SAID) else name


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, then the error."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _chain(before)
    yield error
