"""What the page sends with its events, parsed once, where it comes in: strictly, each value bounded.

class Star(Sent):
    id: Id
    starred: bool

star = parsed(Star, event)                     # of what is sent with an event, or of a component's value
search = parsed(Search, text=text, voice=id)   # of the values of its inputs
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, WrapValidator

from engine.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

OUT_OF_STEP = "The page is out of step with the server. Reload it."
MOST_IDS = 40  # as takes.js has it
_ID = re.compile(r"[0-9a-f]{32}")


class OutOfStep(InvalidInput):
    """An event with values that no page of this version sends."""

    def __init__(self, message: str = OUT_OF_STEP) -> None:
        super().__init__(message)


class Sent(BaseModel):
    """What is sent with one kind of event. Nothing is converted, and what is not named here is refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


SentT = TypeVar("SentT", bound=Sent)


def parsed(model: type[SentT], sent: object = None, /, **values: Any) -> SentT:
    """What is sent, as its model: an event's data, a value, or the named values of inputs. Raises OutOfStep."""
    data = getattr(sent, "_data", sent)  # of gr.EventData
    if not isinstance(data, dict | None):
        raise OutOfStep
    try:
        return model.model_validate({**(data or {}), **values})
    except ValidationError:
        raise OutOfStep from None  # the cause would hold what was sent


def otherwise(default: Any) -> WrapValidator:
    """Mark a field of which everything that does not fit counts as the default."""

    def parse(value: Any, validated: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validated(value)
        except ValidationError:
            return default

    return WrapValidator(parse)


def _ids(value: Any) -> list[str]:
    ids = value if isinstance(value, list) else []
    return [each for each in ids if isinstance(each, str) and _ID.fullmatch(each)][:MOST_IDS]


Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""An id as storage gives them out."""
Ids = Annotated[list[str], BeforeValidator(_ids)]
"""The ids in a list, the first forty; none of what is no list."""
MaybeId = Id | Literal[""]
Picked = Annotated[MaybeId, otherwise("")]
"""An id that is picked in a list, or "": a page may hold none, or what is there no more."""
Ticket = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,64}$")]
"""The page's random word for one take."""
Line = Annotated[str, StringConstraints(max_length=10_000)]
"""Text of a field. How long it may be is said by those who keep it."""
Count = Annotated[int, Field(ge=0, le=2**53)]
