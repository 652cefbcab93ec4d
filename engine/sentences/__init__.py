"""Sentences for people: each has a key, and the English of all keys stands in this package's JSON files.

Errors and notes carry a `Sentence`, not text: `str` gives its English, and a face writes it in the reader's language
from a table with the same keys and placeholders (`web/locales`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Union

Value = Union[str, float, "Sentence"]
"""What fills a placeholder. Numbers are written as the reader writes them, so what only looks like a number, such as a
seed or a version, is passed as text."""

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Sentence:
    """A sentence in all languages. values: of its placeholders, by name.

    A key that no table has is a sentence itself: messages of the command line and the API, which are in English only,
    and those of a page that are already in the reader's language.
    """

    key: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.written(english(), english_number)

    def written(self, texts: Mapping[str, str], number: Callable[[float], str]) -> str:
        """Write the sentence. texts: of one language, by key. number: writes a number in that language."""
        text = texts.get(self.key)
        if text is None:
            return self.key

        def shown(value: Value) -> str:
            if isinstance(value, Sentence):
                return value.written(texts, number)
            return value if isinstance(value, str) else number(value)

        return text.format_map({name: shown(value) for name, value in self.values.items()})

    def to_json(self) -> str:
        """Encode the sentence for a database."""
        return json.dumps(_plain(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, written: str) -> Sentence:
        """Decode what `to_json` wrote; any other text is a sentence as it stands."""
        try:
            return _sentence(json.loads(written))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(written)


def _plain(sentence: Sentence) -> dict[str, Any]:
    values = {name: _plain(value) if isinstance(value, Sentence) else value for name, value in sentence.values.items()}
    return {"key": sentence.key, "values": values}


def _sentence(plain: dict[str, Any]) -> Sentence:
    values = {name: _sentence(value) if isinstance(value, dict) else value for name, value in plain["values"].items()}
    return Sentence(plain["key"], values)


@cache
def english() -> Mapping[str, str]:
    """The English sentences by key."""
    texts: dict[str, str] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        texts |= json.loads(path.read_text("utf-8"))
    return texts


def english_number(value: float) -> str:
    """A number with commas between thousands, and decimals only where it has some."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
