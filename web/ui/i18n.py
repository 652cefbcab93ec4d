"""Translations of the page: a folder per language in `web/locales`, with a file per tab and `page.json` for the rest.
The English texts of errors and notes are in the `messages` of `engine`, `storage` and `studio`, their translations in a
language's folders of these names.

Labels (`label`) are translated by Gradio in the browser, and our ES modules have their own texts. Both are in one
module per language (`web.ui.modules`). Messages created on the server are translated there (`texts`). The language is
the one chosen on the page, which a cookie stores (`web.http.language`), else the first of the browser's that is here,
if need be in a variant of another country, else English.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gradio as gr
from babel import Locale
from babel.numbers import format_decimal

from engine.messages import UserMessage, Value, english, english_number

LOCALES = Path(__file__).parents[1] / "locales"
ENGLISH = "en"
# An entry of an Accept-Language header: a tag and its weight.
_ACCEPTED = re.compile(r"\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")
_COUNTED = 10**15  # larger numbers are written as in English


@dataclass(frozen=True)
class Texts:
    """The texts of one language. `texts("notice.saved", name="Anna")` returns a message as plain text."""

    language: str
    by_key: Mapping[str, str]

    def __call__(self, key: str, **values: Value) -> str:
        """Return the text of a key with its placeholders filled in. Raises KeyError for a missing key or value."""
        if key not in self.by_key:
            raise KeyError(key)
        return self.write(UserMessage(key, values))

    def write(self, message: UserMessage) -> str:
        """Translate a message of the engine, the library or the page to plain text."""
        return message.written(self.by_key, self.number)

    def number(self, value: float, digits: int | None = None) -> str:
        """Format a number for the language. digits: fraction digits; None: as needed, up to three."""
        if not abs(value) < _COUNTED:  # from damaged files; also NaN
            return english_number(value)
        pattern = None if digits is None else f"#,##0.{'0' * digits}"
        return format_decimal(value, pattern, Locale.parse(self.language, sep="-"))

    def length(self, seconds: float) -> str:
        """Format a duration as in web/static/ui/format.js: "1.8 s"; from ten seconds on "0:12", "1:02:05"."""
        if seconds < 9.95:
            return f"{self.number(seconds, 1)} {'秒' if self.language.startswith(('ja', 'zh')) else 's'}"
        minutes, rest = divmod(max(10, int(seconds)), 60)  # 9.95 seconds are "0:10"
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Translations:
    """All languages of the page."""

    def __init__(self, languages: Mapping[str, Mapping[str, str]]) -> None:
        """languages: text by key, by language tag as browsers send it; must include English."""
        self._languages = languages
        self._marks = gr.I18n()  # without texts, which would all be embedded in the page
        self._labels: set[str] = set()

    @classmethod
    def load(cls) -> Translations:
        """Load the languages that have a subfolder in `LOCALES`."""
        languages = {path.name: _texts(path) for path in sorted(LOCALES.iterdir()) if path.is_dir()}
        return cls({**languages, ENGLISH: {**english(), **languages[ENGLISH]}})

    @property
    def languages(self) -> Mapping[str, Mapping[str, str]]:
        return self._languages

    @property
    def names(self) -> dict[str, str]:
        """The languages' own names, by code."""
        return {code: own_name(code) for code in self._languages}

    def label(self, key: str) -> str:
        """Return a marker that Gradio translates as label, info, placeholder or value. Raises KeyError if unknown."""
        if key not in self._languages[ENGLISH]:
            raise KeyError(key)
        self._labels.add(key)
        return str(self._marks(key))

    def texts(self, request: gr.Request | None) -> Texts:
        """Return the texts for a request, English for None."""
        return self.texts_for(dict(request.headers).get("accept-language", "") if request else "")

    def texts_for(self, accepted: str) -> Texts:
        """Return the texts for an Accept-Language header."""
        language = self.language(accepted)
        return Texts(language, self._languages[language])

    def browser_texts(self, language: str, groups: Collection[str], *, labels: bool = True) -> dict[str, str]:
        """Return text by key for the browser: the keys of these groups ("player"), and all labels used so far."""
        wanted = self._labels if labels else set()
        texts = self._languages[language].items()
        return {key: text for key, text in texts if key.partition(".")[0] in groups or key in wanted}

    def language(self, accepted: str) -> str:
        """Return the language for an Accept-Language header."""
        known = {language.lower(): language for language in self._languages}
        variants = {tag.partition("-")[0]: language for tag, language in known.items()}
        found = (known.get(tag) or variants.get(tag.partition("-")[0]) for tag in _preferred(accepted))
        return next(filter(None, found), ENGLISH)


def _preferred(accepted: str) -> list[str]:
    """Return the tags of an Accept-Language header in lower case, most preferred first. Malformed ones are left out."""
    entries = (_ACCEPTED.fullmatch(entry.lower()) for entry in accepted.split(","))
    weights = {entry[1]: float(entry[2] or 1) for entry in entries if entry}
    return sorted(filter(weights.get, weights), key=lambda tag: -weights[tag])


def own_name(language: str) -> str:
    """Return the name of a language in that language."""
    name = Locale.parse(language, sep="-").language_name or language
    return name[:1].upper() + name[1:]


@cache
def _texts(folder: Path) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*.json")):
        texts |= json.loads(path.read_text("utf-8"))
    return texts
