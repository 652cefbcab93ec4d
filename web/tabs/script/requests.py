"""What a script of the page asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from web.ui.events import Count, Line, MaybeId, OutOfStep, Picked, Sent, otherwise, parsed

if TYPE_CHECKING:
    import gradio as gr

Short = Annotated[str, StringConstraints(max_length=64)]


class Values(Sent):
    """What some questions come with; an id may be missing where nothing is chosen."""

    id: MaybeId | None = None
    card: MaybeId | None = None
    take: MaybeId | None = None
    voice: MaybeId | None = None
    name: Line | None = None
    text: str | None = None
    speaker: Line | None = None
    format: Short | None = None
    seconds: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    at: Count | None = None
    position: Count | None = None
    locked: bool = False


class Question(Sent):
    """A question, and which version of which script the page shows that asks it."""

    asked: Count
    do: Short
    script: Picked
    version: Annotated[Short, otherwise("")]
    values: Values


class Number(Sent):
    """A question's number, None for what is none."""

    asked: Annotated[Count | None, otherwise(None)]


class Asked:
    """One question. Making it, and its getters, raise OutOfStep for what the page does not send.

    number: the page's, by which it knows the answer. do: what to do. script, version: what the page shows, or empty.
    """

    def __init__(self, event: gr.EventData) -> None:
        question = parsed(Question, event)
        self.number, self.do = question.asked, question.do
        self.script, self.version = question.script, question.version
        self._values = question.values

    def text(self, name: str) -> str:
        """A text that has to be there; it may be empty."""
        value = getattr(self._values, name)
        if not isinstance(value, str):
            raise OutOfStep
        return value

    def optional(self, name: str) -> str | None:
        """A text, None where there is none."""
        return getattr(self._values, name) or None

    def whole(self, name: str) -> int:
        """A whole number."""
        value = getattr(self._values, name)
        if value is None:
            raise OutOfStep
        return int(value)

    def number_of(self, name: str) -> float:
        """Any number."""
        value = getattr(self._values, name)
        if value is None:
            raise OutOfStep
        return float(value)

    def flag(self, name: str) -> bool:
        """Whether it is so."""
        return bool(getattr(self._values, name))


def number_of(event: gr.EventData) -> int | None:
    """The number of what may be no question otherwise."""
    sent = event._data if isinstance(event._data, dict) else {}
    return parsed(Number, asked=sent.get("asked")).asked
