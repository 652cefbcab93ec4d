"""The page's words in several languages: a folder of `web/locales` each, with a file for each group of keys. The
English of errors and notes stands in `engine.sentences`, whose keys the other languages have here.

Labels (`label`) are translated by Gradio in the browser and our own modules have words of theirs: both come in one
module per language (`web.ui.modules`). Sentences that the server makes are written in the reader's language there
(`words`). All choose alike: the browser's first language, or of it the part before the hyphen, else English.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from babel import Locale
from babel.numbers import format_decimal

from engine.sentences import Sentence, Value, english, english_number

LOCALES = Path(__file__).parents[1] / "locales"
ENGLISH = "en"
_COUNTED = 10**15  # greater numbers are written in the English way


@dataclass(frozen=True)
class Words:
    """The words of one language. `words("notice.saved", name="Anna")` is a sentence, as plain text."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: Value) -> str:
        """The text of a key, with its placeholders filled. Raises KeyError for a key or value that is missing."""
        if key not in self.texts:
            raise KeyError(key)
        return self.write(Sentence(key, values))

    def write(self, sentence: Sentence) -> str:
        """A sentence of the engine, the library or the page, as plain text."""
        return sentence.written(self.texts, self.number)

    def number(self, value: float, digits: int | None = None) -> str:
        """A number as the language writes it. digits: of the fraction; None: up to three, as many as are needed."""
        if not abs(value) < _COUNTED:  # of damaged files; NaN too
            return english_number(value)
        pattern = None if digits is None else f"#,##0.{'0' * digits}"
        return format_decimal(value, pattern, Locale.parse(self.language, sep="-"))

    def length(self, seconds: float) -> str:
        """A length of speech, as web/static/ui/format.js writes it: "1.8 s", from ten seconds on "0:12", "1:02:05"."""
        if seconds < 9.95:
            return f"{self.number(seconds, 1)} {'秒' if self.language.startswith(('ja', 'zh')) else 's'}"
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Translations:
    """All languages of the page."""

    def __init__(self, languages: Mapping[str, Mapping[str, str]]) -> None:
        """`languages`: text by key by language, as browsers call it; English must be there."""
        self._languages = languages
        self._marks = gr.I18n()  # without texts, which would all be in the page
        self._labels: set[str] = set()

    @classmethod
    def load(cls, folder: Path = LOCALES) -> Translations:
        """The languages that have a folder in `folder`."""
        languages = {path.name: _texts(path) for path in sorted(folder.iterdir()) if path.is_dir()}
        return cls({**languages, ENGLISH: {**english(), **languages[ENGLISH]}})

    @property
    def languages(self) -> Mapping[str, Mapping[str, str]]:
        return self._languages

    @property
    def names(self) -> dict[str, str]:
        """The languages' own names by code, as a reader looks for them."""
        return {code: own_name(code) for code in self._languages}

    def label(self, key: str) -> str:
        """A mark that Gradio fills in as label, info, placeholder or value. Raises KeyError for an unknown key."""
        if key not in self._languages[ENGLISH]:
            raise KeyError(key)
        self._labels.add(key)
        return str(self._marks(key))

    def words(self, request: gr.Request | None) -> Words:
        """The words for whoever sent this request; English where nobody did."""
        return self.words_for(dict(request.headers).get("accept-language", "") if request else "")

    def words_for(self, accepted: str) -> Words:
        """The words for a browser with this Accept-Language header."""
        language = self.language(accepted)
        return Words(language, self._languages[language])

    def texts(self, language: str, groups: Collection[str], *, labels: bool = True) -> dict[str, str]:
        """Text by key in one language, for the browser: the keys of these groups ("player"), and the labels so far."""
        wanted = self._labels if labels else set()
        texts = self._languages[language].items()
        return {key: text for key, text in texts if key.partition(".")[0] in groups or key in wanted}

    def language(self, accepted: str) -> str:
        """The language for a browser with this Accept-Language header."""
        first = accepted.partition(",")[0].partition(";")[0].strip().lower()
        known = {language.lower(): language for language in self._languages}
        return known.get(first) or known.get(first.partition("-")[0]) or ENGLISH


def own_name(language: str) -> str:
    """The name of a language in itself, by its tag."""
    name = Locale.parse(language, sep="-").language_name or language
    return name[:1].upper() + name[1:]


def _texts(folder: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        texts |= json.loads(path.read_text("utf-8"))
    return texts
