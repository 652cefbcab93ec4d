"""Event listeners of the page, and the broadcast of changes to its tabs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, ParamSpec

import gradio as gr

from engine.errors import DatabaseUnavailable, InvalidInput

P = ParamSpec("P")
ChangeBroadcast = dict[str, str]


def listen(event: Any, fn: Any, inputs: Any, outputs: Any, **more: Any) -> Any:
    """Register an unqueued handler outside the public API. It gets its inputs as the browser sent them."""
    return event(
        fn, inputs, outputs,
        queue=False, show_progress="hidden", api_visibility="private", preprocess=False, **more,
    )  # fmt: skip


# Read by static/connection/latest_answers.js.
_SHOWS = "(...inputs) => /* only the latest answer counts */ inputs"


def show(event: Any, fn: Any, inputs: Any, outputs: Any, **more: Any) -> Any:
    """As `listen`, for handlers that only show something. The browser drops answers that are late.

    An answer is late for an output when another `show` has asked for it since. Every event sends its own request.
    """
    return listen(event, fn, inputs, outputs, **{"js": _SHOWS, "trigger_mode": "multiple", **more})


def keep_choices(*components: Any) -> None:
    """Let what a visitor chooses in these components outlast answers that were asked for before."""
    for component in components:
        chose = f"() => {{ reprise.answers.chose({component._id}); }}"
        component.input(None, None, None, js=chose, queue=False, api_visibility="private")


def skip_when_refused(outputs: int) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Decorate a handler that has no output for an error message: refused, it leaves its outputs unchanged.

    It is refused while the page waits for another token, sends an unexpected payload, or storage is unavailable. Other
    handlers of the same page show the message.
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


def broadcast_change(*what: Literal["voices", "history", "scripts"]) -> ChangeBroadcast:
    """A value for `SharedComponents.changes`: these have changed. It differs each time."""
    return {"what": " ".join(what), "once": secrets.token_hex(4)}
