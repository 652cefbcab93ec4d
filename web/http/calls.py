"""Validation of the JSON bodies that the page sends to Gradio's routes.

Gradio validates little: non-finite numbers, lone surrogates, unknown functions, missing inputs and foreign file paths
cause tracebacks. This module rejects them with a clear message:

    validator = CallValidator(demo.config, demo.GRADIO_CACHE)
    validator.check("/gradio_api/run/predict", body)   # raises CallRejected
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Scope

RELOAD_PAGE = "The page is out of step with the server. Reload it."
_EVENT_STREAM = "/queue/data"
_SESSION_NOT_FOUND = {
    "msg": "unexpected_error",
    "event_id": None,
    "message": "404: Not Found",
    "session_not_found": True,
    "success": False,
}
NO_FILE = "That is not a file that was uploaded here."
MAX_INPUTS = 32
DEPTH, ITEMS = 16, 20_000  # limits of a body's nested values
MAX_PATH = 4_096  # characters
LARGEST = 2**53  # the largest integer that JavaScript represents exactly


class CallRejected(Exception):
    """Raised for a body that no page of this version sends. status: HTTP status of the response."""

    def __init__(self, status: int, sentence: str = RELOAD_PAGE) -> None:
        super().__init__(sentence)
        self.status = status


def _check_bounds(value: Any) -> Any:
    """Check the depth and number of nested values, and the magnitude of numbers. Raises ValueError."""
    level, items = [value], 0
    for _ in range(DEPTH):
        items += len(level)
        if items > ITEMS or any(isinstance(each, int | float) and not abs(each) <= LARGEST for each in level):
            break
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return value
    raise ValueError("more than a page sends")


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


Value = Annotated[Any, AfterValidator(_check_bounds)]
SessionId = Annotated[str, StringConstraints(pattern=r"^[0-9a-z]{1,40}$")]
Number = Annotated[int, Field(ge=0, le=2**31)]


class CallBody(BaseModel):
    """Base class of request bodies."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


CallBodyT = TypeVar("CallBodyT", bound=CallBody)


class EventBody(CallBody):
    """Body of an event: `run/predict` if unqueued, `queue/join` if queued. Queued events need a session."""

    fn_index: Number
    session_hash: SessionId | None = None
    data: Annotated[list[Any], Field(max_length=MAX_INPUTS), AfterValidator(_check_bounds)]
    event_data: Value = None
    trigger_id: Number | None = None


class ServerBody(CallBody):
    """Body of a call of a component's server function."""

    component_id: Number
    fn_name: Annotated[str, StringConstraints(max_length=100)]
    session_hash: SessionId
    data: Value


class CallValidator:
    """Validates calls against the page's configuration."""

    def __init__(
        self,
        config: Mapping[str, Any],
        folder: str | Path,
        has_session: Callable[[str], bool] = lambda _session: True,
        version: str = "",
    ) -> None:
        """config: the page's, as Gradio sends it to browsers. folder: the upload folder. has_session: whether Gradio's
        queue knows a session, with pending events or unread messages. version: the page's (`page_version`)."""
        self._has_session = has_session
        self._version = version
        self._folder = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118  # does not follow links
        self._events = {  # the number of inputs of each event that the server handles, and whether it is queued
            event["id"]: (len(event["inputs"]), bool(event["queue"]))
            for event in config["dependencies"]
            if event["backend_fn"]
        }
        self._functions = {
            part["id"]: frozenset(part["props"].get("server_fns") or ()) for part in config["components"]
        }
        self._checks: dict[str, Callable[[Any], None]] = {
            "run/predict": lambda body: self._check_event(body, queued=False),
            "queue/join": lambda body: self._check_event(body, queued=True),
            "component_server": self._check_function,
        }

    def check(self, path: str, body: bytes, version: str | None = None) -> None:
        """Check the body of a call to a path of Gradio's API. Raises CallRejected.

        version: of the page that calls; None for another client. The events of another version have other numbers.
        """
        if version not in (None, self._version):
            raise CallRejected(409)
        check = self._checks.get(path.rstrip("/").rpartition("/gradio_api/")[2])
        if check is None:
            raise CallRejected(404, "There is nothing here.")
        check(_parse_json(body))

    def session_not_found(self, scope: Scope) -> Response | None:
        """Return the response to an event stream request of an unknown session, None for any other request.

        Gradio would fail with a traceback.
        """
        if not scope["path"].endswith(_EVENT_STREAM):
            return None
        if self._has_session(QueryParams(scope["query_string"]).get("session_hash", "")):
            return None
        return Response(f"data: {json.dumps(_SESSION_NOT_FOUND)}\n\n", media_type="text/event-stream")

    def _check_event(self, body: Any, *, queued: bool) -> None:
        sent = _validate(EventBody, body)
        known = self._events.get(sent.fn_index) == (len(sent.data), queued)
        if not known or (queued and sent.session_hash is None):
            raise CallRejected(422)
        self._check_files([sent.data, sent.event_data])

    def _check_function(self, body: Any) -> None:
        sent = _validate(ServerBody, body)
        if sent.fn_name not in self._functions.get(sent.component_id, ()):
            raise CallRejected(422)
        self._check_files(sent.data)

    def _check_files(self, value: Any) -> None:
        """Reject paths outside the upload folder: Gradio opens any value that looks like a file."""
        inside = [value]
        while inside:
            each = inside.pop()
            path = each.get("path") if isinstance(each, dict) else None
            if isinstance(path, str) and not self._is_upload(path):
                raise CallRejected(422, NO_FILE)
            inside.extend(_children(each))

    def _is_upload(self, path: str) -> bool:
        plain = len(path) <= MAX_PATH and "\0" not in path and not any("\ud800" <= each <= "\udfff" for each in path)
        return plain and os.path.abspath(path).startswith(self._folder)  # noqa: PTH100  # as Gradio compares


def _validate(model: type[CallBodyT], body: Any) -> CallBodyT:
    try:
        return model.model_validate(body)
    except ValidationError:
        raise CallRejected(422) from None


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant, parse_float=_finite_float)
    except (ValueError, RecursionError):  # ValueError: also invalid UTF-8, huge numbers
        raise CallRejected(400) from None


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number too large")
    return number
