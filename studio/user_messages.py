"""User-facing messages for errors, with file names instead of paths."""

from __future__ import annotations

import logging
import re

from engine.errors import EngineError, ReleaseError, RepriseError, UnusableReference
from engine.messages import UserMessage, Value
from storage.errors import DatabaseUnavailable
from studio.tracebacks import format_traceback

log = logging.getLogger(__name__)

OUR_FAULT = UserMessage("engine.our_fault")
_WITH_PATHS = (DatabaseUnavailable, EngineError, ReleaseError, UnusableReference)
_PART = r"[^\s/\\“”\"']+(?: [^\s/\\“”\"'.:]+){0,3}"  # of a path; folder names may contain spaces
_FOLDERS = re.compile(rf"(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\](?:{_PART}[/\\])*(?=[^\s/\\])")
_MAX_VALUE = 300  # characters of a value


def user_message(error: Exception) -> UserMessage:
    """Return the message for an error. Errors other than RepriseError are logged and give OUR_FAULT."""
    if not isinstance(error, RepriseError):
        log.error("an unexpected error\n%s", format_traceback(error))
        return OUR_FAULT
    return _cleaned(error.message) if isinstance(error, _WITH_PATHS) else error.message


def without_paths(text: str) -> str:
    """Reduce file paths in a text to file names."""
    return _FOLDERS.sub("", text)


def _cleaned(message: UserMessage) -> UserMessage:
    return UserMessage(
        without_paths(message.key), {name: _cleaned_value(value) for name, value in message.values.items()}
    )


def _cleaned_value(value: Value) -> Value:
    if isinstance(value, UserMessage):
        return _cleaned(value)
    return without_paths(value)[:_MAX_VALUE] if isinstance(value, str) else value
