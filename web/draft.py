"""What a page keeps across a reload, in the browser alone (static/draft): the events that keep it and fill it in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

# What the server is told when the page opens. Components' scripts may not have run by then.
OPENING = "() => reprise.opening()"
KEEP_VOICE = "(id) => { if (id) reprise.draft.voice = id; }"


def keep_draft(changes: gr.HTML, parts: Sequence[Any], tabs: gr.Tabs, each: Mapping[str, gr.Tab]) -> Any:
    """Keep the values of `parts`, and which tab is shown; fill them in when the page's owner is known.

    changes: its event `opened` tells that. each: the tabs by their ids. Returns the event of filling in.
    """
    ids = json.dumps([part.elem_id for part in parts])
    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private"}
    gr.on(
        [part.change for part in parts], None, list(parts), None,
        js=f"(...values) => {{ reprise.keepDraft({ids}, values); }}", **quiet,
    )  # fmt: skip
    filled = changes.opened(None, None, [*parts, tabs], js=f"() => reprise.fillIn({ids})", **quiet)
    for name, tab in each.items():
        tab.select(None, None, None, js=f"() => {{ reprise.draft.keep({{ tab: {name!r} }}); }}", **quiet)
    return filled
