"""The languages of voices, which are stored as tags."""

from __future__ import annotations

import re

from engine.errors import InvalidInput
from engine.languages import language_tag

_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")


def clean_language(language: str) -> str:
    """Return the language of a voice as stored: a tag as given, or that of an English name; "" for "" and "auto".

    The names are those of the languages that models speak. Raises InvalidInput for anything else.
    """
    given = language.strip()
    if given.lower() == "auto":
        return ""
    tag = given if not given or _TAG.fullmatch(given) else language_tag(given)
    if given and not _TAG.fullmatch(tag):
        raise InvalidInput("voices.no_language", language=given[:40])
    return tag
