"""What a script of the page asks for, with values that may be anything: they come from the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.errors import InvalidInput

if TYPE_CHECKING:
    import gradio as gr

OUT_OF_STEP = "The page is out of step with the server. Reload it."


class Asked:
    """One question. Its getters raise InvalidInput for what the page does not send.

    number: the page's, by which it knows the answer. do: what to do. script, version: what the page shows, or empty.
    """

    def __init__(self, event: gr.EventData) -> None:
        self.number = getattr(event, "asked", None)
        self.do = self._text(getattr(event, "do", ""))
        self.script = self._text(getattr(event, "script", ""))
        self.version = self._text(getattr(event, "version", ""))
        values = getattr(event, "values", None)
        self._values: Mapping[str, Any] = values if isinstance(values, dict) else {}

    def text(self, name: str) -> str:
        """A text that has to be there; it may be empty."""
        value = self._values.get(name)
        if not isinstance(value, str):
            raise InvalidInput(OUT_OF_STEP)
        return value

    def optional(self, name: str) -> str | None:
        """A text, None where there is none."""
        return self.text(name) if self._values.get(name) else None

    def whole(self, name: str) -> int:
        """A whole number."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInput(OUT_OF_STEP)
        return value

    def number_of(self, name: str) -> float:
        """Any number, finite or not."""
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidInput(OUT_OF_STEP)
        return float(value)

    def flag(self, name: str) -> bool:
        """Whether it is so."""
        return self._values.get(name) is True

    @staticmethod
    def _text(value: object) -> str:
        return value if isinstance(value, str) else ""
