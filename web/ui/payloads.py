"""What the browser sends with events, parsed once and strictly; each value is bounded.

class Star(Payload):
    id: Id
    starred: bool

star = parse_payload(Star, event)                     # an event's data, or a component's value
search = parse_payload(Search, text=text, voice=id)   # values of inputs
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, WrapValidator

from engine.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

MOST_IDS = 40  # as in takes.js
_ID = re.compile(r"[0-9a-f]{32}")


class UnexpectedPayload(InvalidInput):
    """An event with values that no page of this version sends."""

    def __init__(self) -> None:
        super().__init__("speech.out_of_step")


class Payload(BaseModel):
    """The values of one kind of event. Nothing is converted, and unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


PayloadT = TypeVar("PayloadT", bound=Payload)


def parse_payload(model: type[PayloadT], source: object = None, /, **values: Any) -> PayloadT:
    """Parse an event's data, a component's value, or named values of inputs. Raises UnexpectedPayload."""
    from web.gradio_internals import event_value  # here, because the command line imports `web.ui` without Gradio

    data = event_value(source)
    if not isinstance(data, dict | None):
        raise UnexpectedPayload
    try:
        return model.model_validate({**(data or {}), **values})
    except ValidationError:
        raise UnexpectedPayload from None  # the cause would quote the values


def default_if_invalid(default: Any) -> WrapValidator:
    """Mark a field that takes the default for every invalid value."""

    def parse(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError:
            return default

    return WrapValidator(parse)


def _ids(value: Any) -> list[str]:
    ids = value if isinstance(value, list) else []
    return [each for each in ids if isinstance(each, str) and _ID.fullmatch(each)][:MOST_IDS]


Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""An id as storage makes them."""
Ids = Annotated[list[str], BeforeValidator(_ids)]
"""The first forty ids in a list; none of anything else."""
OptionalId = Id | Literal[""]
SelectedId = Annotated[OptionalId, default_if_invalid("")]
"""An id that is selected in a list, or ""."""
Ticket = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,64}$")]
"""The page's random name of one take."""
ShortText = Annotated[str, StringConstraints(max_length=10_000)]
"""Text of a field; storage checks its actual limits."""
Count = Annotated[int, Field(ge=0, le=2**53)]
