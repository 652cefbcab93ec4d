"""Translatable messages. Each has a key. Its English text is in the `messages` of the lowest package that uses it.

Errors and notes carry a `UserMessage` instead of text. `str` returns its English text; a user interface formats it in
the user's language from a table with the same keys and placeholders (`web/locales`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from pathlib import Path
from typing import Any, Union

Value = Union[str, float, "UserMessage", Sequence[str]]
"""Value of a placeholder. Numbers are formatted for the user's locale, so pass text for values such as a seed or a
version. A sequence of texts is written as a list."""

_PACKAGES = Path(__file__).parents[2]  # the folder of all packages


@dataclass(frozen=True)
class UserMessage:
    """A translatable message. values: values of its placeholders, by name.

    A key that is in no table is the text itself: messages of the command line and the API, which are in English only,
    and messages of a page that are already in the user's language.
    """

    key: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.written(english(), english_number)

    def written(self, texts: Mapping[str, str], number: Callable[[float], str]) -> str:
        """Format the message. texts: the texts of one language by key. number: formats a number in that language."""
        text = texts.get(self.key)
        if text is None:
            return self.key

        def shown(value: Value) -> str:
            if isinstance(value, UserMessage):
                return value.written(texts, number)
            if isinstance(value, str):
                return value
            if isinstance(value, Sequence):
                more = texts["list.more"]
                return reduce(lambda first, following: more.format(first=first, next=following), value or [""])
            return number(value)

        return text.format_map({name: shown(value) for name, value in self.values.items()})

    def to_json(self) -> str:
        """Encode the message as JSON for a database."""
        return json.dumps(_plain(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, written: str) -> UserMessage:
        """Decode the output of `to_json`. Any other text becomes the message itself."""
        try:
            return _message(json.loads(written))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(written)


def _plain(message: UserMessage) -> dict[str, Any]:
    values = {
        name: _plain(value) if isinstance(value, UserMessage) else value for name, value in message.values.items()
    }
    return {"key": message.key, "values": values}


def _message(plain: dict[str, Any]) -> UserMessage:
    return UserMessage(plain["key"], {name: _value(value) for name, value in plain["values"].items()})


def _value(plain: Any) -> Value:
    if isinstance(plain, dict):
        return _message(plain)
    return tuple(map(str, plain)) if isinstance(plain, list) else plain


@cache
def english() -> Mapping[str, str]:
    """Return the English texts of all packages by key."""
    texts: dict[str, str] = {}
    for path in sorted(_PACKAGES.glob("*/messages/*.json")):
        texts |= json.loads(path.read_text("utf-8"))
    return texts


def english_number(value: float) -> str:
    """Format a number with thousands separators, and decimals only if it has any."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
