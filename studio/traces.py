"""Errors for the log, which holds nothing of what people wrote, named or were given."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from engine.errors import DatabaseUnavailable, EngineError, ReleaseError

# What these say is of the machine. Other errors quote the values that they are about.
_SAID = (RuntimeError, MemoryError, EngineError, ReleaseError, DatabaseUnavailable)


def trace(error: BaseException) -> str:
    """Where an error came from, and of what kind it and its causes are."""
    return "\n".join(f"{''.join(traceback.format_tb(each.__traceback__))}{reason(each)}" for each in _chain(error))


def reason(error: BaseException) -> str:
    """What kind of error it is, and what it says where that is of the machine."""
    name = type(error).__name__
    if isinstance(error, OSError):  # its text would name the file, which may be named by a visitor
        return f"{name}: {error.strerror}" if error.strerror else name
    return f"{name}: {error}" if isinstance(error, _SAID) else name


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The causes first."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _chain(before)
    yield error
