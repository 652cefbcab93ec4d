"""Event listeners of the page, and the broadcast of changes to its tabs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, ParamSpec

import gradio as gr

from engine.errors import InvalidInput
from storage.errors import DatabaseUnavailable
from web.gradio_internals import component_id

P = ParamSpec("P")
_START = time.time() - time.monotonic()
ChangeBroadcast = dict[str, str]


def listen(event: Any, fn: Any, inputs: Any, outputs: Any, *, queue: bool = False, **more: Any) -> Any:
    """Register a handler outside the public API. It receives inputs as the browser sent them.

    queue: for generators. They do not wait there but in the engine's fair queue: a single visitor could fill Gradio's.
    """
    # Unless told on which components progress is shown, the page copies all properties of each output of each event
    # that has run, whenever an event begins or ends.
    more = {
        "queue": queue, "concurrency_limit": None, "api_visibility": "private", "preprocess": False,
        "show_progress": "hidden", "show_progress_on": (), **more,
    }  # fmt: skip
    listener = event(fn, inputs, outputs, **more)
    if more.get("trigger_mode") == "always_last":
        # After an event that has failed, Gradio does not send the one that was waiting for its end.
        listener.failure(fn, inputs, outputs, **more)
    return listener


# Read by static/connection/answers/latest_answers.js.
_LATEST = "(...inputs) => /* only the latest press counts */ inputs"
_SHOWS = "(...inputs) => /* only the latest answer counts */ inputs"
REPEATED = "(...inputs) => /* repeated if it is lost */ inputs"  # of an event that does no harm twice


def show(event: Any, fn: Any, inputs: Any, outputs: Any, **more: Any) -> Any:
    """As `listen`, for handlers that only display data. The browser drops outdated responses.

    A response is outdated for an output if a later `show` event has requested that output. Each event sends a request.
    """
    return listen(event, fn, inputs, outputs, **{"js": _SHOWS, "trigger_mode": "multiple", **more})


def listen_to_latest(event: Any, fn: Any, inputs: Any, outputs: Any, **more: Any) -> Any:
    """As `listen`, for buttons of a list: of several presses, the browser drops the answers to all but the last one."""
    return listen(event, fn, inputs, outputs, **{"js": _LATEST, "trigger_mode": "multiple", **more})


def listen_to_marks(event: Any, fn: Any, inputs: Any, outputs: Any) -> None:
    """As `listen`, for stars and favourites, which the page sends one after the other (static/connection/marks.js)."""
    marked = listen(event, fn, inputs, outputs, trigger_mode="multiple")
    marked.then(None, js="() => { reprise.marks.over(); }")
    marked.failure(None, js="() => { reprise.marks.failed(); }")


def keep_choices(*components: Any) -> None:
    """Keep a visitor's choices in these components from being overwritten by responses to earlier requests.

    Call it before `listen` with their `input`. What is entered into text boxes and sliders is kept without this
    (static/connection/answers/latest_answers.js).
    """
    for component in components:
        component.input(None, None, None, js=keeping(component), queue=False, api_visibility="private")


def keeping(component: Any, then: str = "") -> str:
    """Return a script that keeps the choice in a component as `keep_choices` does, and then runs another statement."""
    return f"() => {{ reprise.answers.chose({component_id(component)}); {then} }}"


def telling_refusal(then: str = "") -> str:
    """Return a script for the failure of an event that follows an upload, and then runs another statement.

    The page tells a refusal by itself only if the user has just done something, which may be long ago after an upload.
    """
    return f"() => {{ document.dispatchEvent(new CustomEvent('reprise:refused')); {then} }}"


def skip_on_error(outputs: int) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Decorate a handler without an output for error messages: on errors, its outputs stay unchanged.

    This covers InvalidInput (a missing or invalid token, an unexpected payload) and DatabaseUnavailable. Other handlers
    of the same page show the message.
    """

    def decorate(handler: Callable[P, Any]) -> Callable[P, Any]:
        @wraps(handler)
        def handle(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return handler(*args, **kwargs)
            except (InvalidInput, DatabaseUnavailable):
                return gr.skip() if outputs == 1 else (gr.skip(),) * outputs

        return handle

    return decorate


def answer_time() -> float:
    """Return the time by which a page knows the newest of several answers; call it before the answer's data is read.

    It does not go back when the clock is set back: the page would take no new answer until the clock is as late again.
    The times of a new process are not compared with those of the last one (web/static/connection/answers/newest.js).
    """
    return _START + time.monotonic()


def broadcast_change(*what: Literal["voices", "listed", "history", "scripts", "words"]) -> ChangeBroadcast:
    """Return a value for `SharedComponents.changes` that announces these changes. Each value is different.

    listed: instead of "voices", if the answer has the Library's list.
    """
    return with_nonce({"what": " ".join(what)})


def with_nonce(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component's value with a nonce: the page ignores a value that is the same as its last one."""
    return {**value, "nonce": secrets.token_hex(4)}
