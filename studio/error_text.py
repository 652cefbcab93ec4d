"""Errors as one English sentence for a person, with file names instead of paths."""

from __future__ import annotations

import logging
import re

from engine.errors import DatabaseUnavailable, EngineError, ReleaseError, RepriseError, UnusableReference
from studio.traces import trace

log = logging.getLogger(__name__)

_WITH_PATHS = (DatabaseUnavailable, EngineError, ReleaseError, UnusableReference)
_PART = r"[^\s/\\“”\"']+(?: [^\s/\\“”\"'.:]+){0,3}"  # of a path; folders may have spaces in their names
_FOLDERS = re.compile(rf"(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\](?:{_PART}[/\\])*(?=[^\s/\\])")
INTERNAL_ERROR = "Something went wrong on the server, through no fault of yours. Its log says what."


def error_text(error: Exception) -> str:
    """Describe an error in a sentence. Errors other than RepriseError are logged and give INTERNAL_ERROR."""
    if isinstance(error, _WITH_PATHS):
        return without_paths(str(error))
    if isinstance(error, RepriseError):
        return str(error)
    log.error("an unexpected error\n%s", trace(error))
    return INTERNAL_ERROR


def without_paths(text: str) -> str:
    """Reduce file paths in a text to file names."""
    return _FOLDERS.sub("", text)
