"""Commands of the script component (script_editor.js), with their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from storage.scripts.limits import MAX_CARDS
from web.gradio_internals import event_value
from web.ui.payloads import (
    Count,
    Id,
    Ids,
    OptionalId,
    Payload,
    SelectedId,
    ShortText,
    UnexpectedPayload,
    default_if_invalid,
    parse_payload,
)

if TYPE_CHECKING:
    import gradio as gr

Keyword = Annotated[str, StringConstraints(max_length=64)]


class CommandValues(Payload):
    """The values of a command. An id is empty if nothing is selected."""

    id: OptionalId | None = None
    card: OptionalId | None = None
    take: OptionalId | None = None
    voice: OptionalId | None = None
    name: ShortText | None = None
    text: str | None = None
    speaker: ShortText | None = None
    format: Keyword | None = None
    seconds: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    speed: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    at: Count | None = None
    position: Count | None = None
    locked: bool = False
    repair: bool = False
    takes: Ids = Field(default_factory=list)
    chapters: Annotated[list[Id], Field(max_length=MAX_CARDS)] = Field(default_factory=list)


class CommandPayload(Payload):
    """A command, with the script and version that the page shows."""

    number: Count
    page: Annotated[Keyword, default_if_invalid("")] = ""
    do: Keyword
    script: SelectedId
    version: Annotated[Keyword, default_if_invalid("")]
    values: CommandValues


class CommandNumber(Payload):
    """A command's number, None for an invalid one."""

    number: Annotated[Count | None, default_if_invalid(None)]


class ScriptCommand:
    """One command. The constructor and the getters raise UnexpectedPayload for values that the page never sends.

    number: assigned by the page, identifies the answer. page: the page's random id. do: name of the action. script,
    version: those that the page shows, or empty.
    """

    def __init__(self, event: gr.EventData) -> None:
        question = parse_payload(CommandPayload, event)
        self.number, self.page, self.do = question.number, question.page, question.do
        self.script, self.version = question.script, question.version
        self._values = question.values

    def text(self, name: str) -> str:
        """Return a required text, which may be empty."""
        return str(self._required(name))

    def optional(self, name: str) -> str | None:
        """Return a text, None if missing or empty."""
        return getattr(self._values, name) or None

    def integer(self, name: str) -> int:
        """Return a required integer."""
        return int(self._required(name))

    def number_value(self, name: str) -> float:
        """Return a required number."""
        return float(self._required(name))

    def ids(self) -> list[str]:
        """Return the ids of takes, at most forty."""
        return self._values.takes

    @property
    def chapters(self) -> list[str]:
        """Return the ids of the cards that chapters begin with."""
        return self._values.chapters

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return bool(getattr(self._values, name))

    def _required(self, name: str) -> Any:
        value = getattr(self._values, name)
        if value is None:
            raise UnexpectedPayload
        return value


def command_number(event: gr.EventData) -> int | None:
    """Return the number of an event that may not be a valid command."""
    value = event_value(event)
    return parse_payload(CommandNumber, number=value.get("number") if isinstance(value, dict) else None).number
