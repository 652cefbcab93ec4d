"""The page's draft, kept across reloads in the browser only (static/draft): events that save and restore it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from web.ui.events import keeping

# Inputs of the page's load event. Components' scripts may not have run by then.
OPENING = "() => reprise.opening()"
KEEP_VOICE = "(id) => { if (id) reprise.draft.voice = id; }"


def keep_draft(changes: gr.HTML, parts: Sequence[Any], tabs: gr.Tabs, each: Mapping[str, gr.Tab]) -> Any:
    """Save the values of `parts` and the selected tab, and restore them when the page's owner is known.

    changes: fires `opened` at that time, and `forgotten` when all of the owner's data was deleted: then `parts` get
    their first values again. each: the tabs by id. Returns the restore event.
    """
    ids = json.dumps([part.elem_id for part in parts])
    quiet: dict[str, Any] = {"queue": False, "api_visibility": "private"}
    gr.on(
        [part.change for part in parts], None, list(parts), None,
        js=f"(...values) => {{ reprise.keepDraft({ids}, values); }}", **quiet,
    )  # fmt: skip
    filled = changes.opened(None, None, [*parts, tabs], js=f"() => reprise.fillIn({ids})", **quiet)
    first_values = json.dumps(
        ["" if isinstance(part, gr.Textbox) and part.value is None else part.value for part in parts]
    )
    changes.forgotten(None, None, list(parts), js=f"() => {first_values}", **quiet)
    for name, tab in each.items():
        tab.select(None, None, None, js=keeping(tabs, f"reprise.keepTab({name!r});"), **quiet)
    return filled
