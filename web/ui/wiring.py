"""How the parts of the page are tied together: quick events, and what the tabs share."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, ParamSpec

import gradio as gr

from engine.errors import DatabaseUnavailable, InvalidInput

P = ParamSpec("P")
Rung = dict[str, str]


@dataclass(frozen=True)
class Shared:
    """What tabs may touch of each other.

    token: the owner's key, an input of every event. heading: the page's, which names the model. tabs: to have another
    tab shown, by its id. picker, text, notice, settings: of the Speak tab, which fills the last: seed, temperature,
    top-p, top-k, and the fold that they are in. stage: the player, for all tabs. bell: rung (`ring`) when something was
    changed; its events `voices`, `history` and `scripts` reach every tab that shows such things, in all pages of this
    browser.
    """

    demo: gr.Blocks
    token: gr.HTML
    heading: gr.HTML
    bell: gr.HTML
    tabs: gr.Tabs
    picker: gr.Dropdown
    text: gr.Textbox
    notice: gr.HTML
    stage: gr.HTML
    settings: list[Any] = field(default_factory=list)


def quick(event: Any, fn: Any, inputs: Any, outputs: Any, **more: Any) -> Any:
    """A quick event: past the queue, out of the public API. Its values come as the browser sent them."""
    return event(
        fn, inputs, outputs,
        queue=False, show_progress="hidden", api_visibility="private", preprocess=False, **more,
    )  # fmt: skip


def skips(outputs: int) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Mark an event that has no place for a sentence: refused, it leaves its outputs as they are.

    That is when the page is about to be given another key, is out of step, or the library cannot be used: other events
    of the same page say so.
    """

    def marked(event: Callable[P, Any]) -> Callable[P, Any]:
        @wraps(event)
        def answer(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return event(*args, **kwargs)
            except (InvalidInput, DatabaseUnavailable):
                return gr.skip() if outputs == 1 else (gr.skip(),) * outputs

        return answer

    return marked


def ring(*what: Literal["voices", "history", "scripts"]) -> Rung:
    """A value for the bell: these were changed."""
    return {"what": " ".join(what), "once": secrets.token_hex(4)}


def title(text: str) -> gr.HTML:
    """The heading of a part of the page. text: a label."""
    return gr.HTML(text, html_template="<h2>${value}</h2>", elem_classes="rp-title", apply_default_css=False)


def line(elem_id: str) -> gr.HTML:
    """A place for notices, which is not there while it is empty."""
    return gr.HTML("", elem_id=elem_id, elem_classes="rp-line", apply_default_css=False)
