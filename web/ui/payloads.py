"""Strict parsing of event data from the browser, with limits on every value.

class Star(Payload):
    id: Id
    starred: bool

star = parse_payload(Star, event)                     # an event's data, or a component's value
search = parse_payload(Search, text=text, voice=id)   # values of inputs
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, WrapValidator

from engine.errors import InvalidInput
from storage.validation import is_id

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

MAX_IDS = 40  # as in takes.js


class UnexpectedPayload(InvalidInput):
    """Raised for values that no page of this version sends."""

    def __init__(self) -> None:
        super().__init__("speech.out_of_step")


class Payload(BaseModel):
    """Base class of event payloads. Values are not converted, and unknown fields are rejected."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


PayloadT = TypeVar("PayloadT", bound=Payload)


def parse_payload(model: type[PayloadT], source: object = None, /, **values: Any) -> PayloadT:
    """Parse an event's data, a component's value, or named values of inputs. Raises UnexpectedPayload."""
    from web.gradio_internals import event_value  # lazy: the command line imports `web.ui` without Gradio

    data = event_value(source)
    if not isinstance(data, dict | None):
        raise UnexpectedPayload
    try:
        return model.model_validate({**(data or {}), **values})
    except ValidationError:
        raise UnexpectedPayload from None  # the cause would quote the values


def affected_id(event: object) -> str:
    """Return the id of the item that an event affects, ignoring its other fields; "" if missing."""
    from web.gradio_internals import event_value  # lazy, as above

    value = event_value(event)
    return parse_payload(_AffectedItem, id=value.get("id") if isinstance(value, dict) else None).id


def default_if_invalid(default: Any) -> WrapValidator:
    """Replace any invalid value of a field by a default."""

    def parse(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError:
            return default

    return WrapValidator(parse)


def _ids(value: Any) -> list[str]:
    ids = value if isinstance(value, list) else []
    return [each for each in ids if isinstance(each, str) and is_id(each)][:MAX_IDS]


Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""An id in the format of storage."""
SoundId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}(@[0-9]{1,3})?$")]
"""An id of a take, with a speed, as returned by `sound_id`."""
Ids = Annotated[list[str], BeforeValidator(_ids)]
"""The first 40 valid ids in a list; empty for any other value."""
OptionalId = Id | Literal[""]
SelectedId = Annotated[OptionalId, default_if_invalid("")]
"""The id selected in a list, or ""."""
Ticket = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,64}$")]
"""A random id that the page gives to a take."""
ShortText = Annotated[str, StringConstraints(max_length=10_000)]
"""Text of an input field; storage checks the actual limits."""
Count = Annotated[int, Field(ge=0, le=2**53)]


class Item(Payload):
    """A voice, a take or another item."""

    id: Id


class _AffectedItem(Payload):
    id: SelectedId
