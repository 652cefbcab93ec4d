"""The bodies of calls: what the page's scripts send to Gradio's routes, and nothing else.

Gradio checks little of a body before it works with it: numbers that are not finite, halves of characters, functions
that are none, too few inputs and files of elsewhere end in its tracebacks. Here they end in a sentence:

    calls = Calls(demo.config, demo.GRADIO_CACHE)
    calls.check("/gradio_api/run/predict", body)   # raises CallRefused
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

OUT_OF_STEP = "The page is out of step with the server. Reload it."
NO_FILE = "That is not a file that was uploaded here."
MOST_INPUTS = 32
DEPTH, ITEMS = 16, 20_000  # of one body's values
MAX_PATH = 4_096  # characters
LARGEST = 2**53  # beyond it, numbers of a browser are no longer exact


class CallRefused(Exception):
    """A body that no page of this version sends. `status`: of the answer; the message is a sentence."""

    def __init__(self, status: int, sentence: str = OUT_OF_STEP) -> None:
        super().__init__(sentence)
        self.status = status


def _bounded(value: Any) -> Any:
    """Values in values only so deep, so many, and with numbers that a browser can make."""
    level, items = [value], 0
    for _ in range(DEPTH):
        items += len(level)
        if items > ITEMS or any(isinstance(each, int | float) and not abs(each) <= LARGEST for each in level):
            break
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return value
    raise ValueError("more than a page sends")


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


Value = Annotated[Any, AfterValidator(_bounded)]
Session = Annotated[str, StringConstraints(pattern=r"^[0-9a-z]{1,40}$")]
EventId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Number = Annotated[int, Field(ge=0, le=2**31)]


class Body(BaseModel):
    """A body of one kind of call."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


BodyT = TypeVar("BodyT", bound=Body)


class EventBody(Body):
    """An event: `run/predict` for quick ones, `queue/join` for those that wait their turn, which need a session."""

    fn_index: Number
    session_hash: Session | None = None
    data: Annotated[list[Any], Field(max_length=MOST_INPUTS), AfterValidator(_bounded)]
    event_data: Value = None
    trigger_id: Number | None = None


class ServerBody(Body):
    """A server function of a component."""

    component_id: Number
    fn_name: Annotated[str, StringConstraints(max_length=100)]
    session_hash: Session
    data: Value


class CancelBody(Body):
    """A queued event that is given up; it has no id where it never came to the server."""

    fn_index: Number
    session_hash: Session
    event_id: EventId | None = None


class ResetBody(Body):
    """What Gradio's client says after `cancel`; nothing is done about it."""

    event_id: EventId | None = None


@dataclass(frozen=True)
class Event:
    """One of the page's events that the server answers."""

    inputs: int
    queued: bool


class Calls:
    """The calls that the page can make."""

    def __init__(self, config: Mapping[str, Any], folder: str | Path) -> None:
        """`config`: of the page, as Gradio gives it to browsers. `folder`: where uploads lie."""
        self._folder = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118  # without following links
        self._events = {
            event["id"]: Event(len(event["inputs"]), bool(event["queue"]))
            for event in config["dependencies"]
            if event["backend_fn"]
        }
        self._cancelled = {index for event in config["dependencies"] for index in event["cancels"]}
        self._functions = {
            part["id"]: frozenset(part["props"].get("server_fns") or ()) for part in config["components"]
        }
        self._checks: dict[str, Callable[[Any], None]] = {
            "run/predict": lambda body: self._check_event(body, queued=False),
            "queue/join": lambda body: self._check_event(body, queued=True),
            "component_server": self._check_function,
            "cancel": self._check_cancel,
            "reset": self._check_reset,
        }

    def check(self, path: str, body: bytes) -> None:
        """Refuses a body that the page does not send to this path of Gradio's API. Raises CallRefused."""
        check = self._checks.get(path.rstrip("/").rpartition("/gradio_api/")[2])
        if check is None:
            raise CallRefused(404, "There is nothing here.")
        check(_read(body))

    def _check_event(self, body: Any, *, queued: bool) -> None:
        sent = _parsed(EventBody, body)
        known = self._events.get(sent.fn_index) == Event(len(sent.data), queued)
        if not known or (queued and sent.session_hash is None):
            raise CallRefused(422)
        self._check_files([sent.data, sent.event_data])

    def _check_function(self, body: Any) -> None:
        sent = _parsed(ServerBody, body)
        if sent.fn_name not in self._functions.get(sent.component_id, ()):
            raise CallRefused(422)
        self._check_files(sent.data)

    def _check_cancel(self, body: Any) -> None:
        if _parsed(CancelBody, body).fn_index not in self._cancelled:
            raise CallRefused(422)

    def _check_reset(self, body: Any) -> None:
        _parsed(ResetBody, body)

    def _check_files(self, value: Any) -> None:
        """Refuses a path out of the folder of uploads: Gradio acts on whatever looks like a file."""
        inside = [value]
        while inside:
            each = inside.pop()
            path = each.get("path") if isinstance(each, dict) else None
            if isinstance(path, str) and not self._is_upload(path):
                raise CallRefused(422, NO_FILE)
            inside.extend(_inside(each))

    def _is_upload(self, path: str) -> bool:
        plain = len(path) <= MAX_PATH and "\0" not in path and not any("\ud800" <= each <= "\udfff" for each in path)
        return plain and os.path.abspath(path).startswith(self._folder)  # noqa: PTH100  # as Gradio compares them


def _parsed(model: type[BodyT], body: Any) -> BodyT:
    try:
        return model.model_validate(body)
    except ValidationError:
        raise CallRefused(422) from None


def _read(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):  # bytes that are no UTF-8, and numbers of thousands of digits, are ValueErrors
        raise CallRefused(400) from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number too large")
    return number
