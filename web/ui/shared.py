"""Components that several tabs use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gradio as gr


@dataclass(frozen=True)
class SharedComponents:
    """The components that tabs may read and update.

    token: the browser's token, an input of every event. heading: of the page; it names the model. changes: takes a
    `ChangeBroadcast`; its events `voices`, `history` and `scripts` fire in all pages of this browser. tabs: to show
    another tab, by its id. picker, text, hints, notice, settings: of the Speak tab, which fills the last: as
    `web.tabs.speak.settings.NAMES`, and their accordion. stage: the player. drafted: what the page keeps
    across a reload; tabs add to it.
    """

    demo: gr.Blocks
    token: gr.HTML
    heading: gr.HTML
    changes: gr.HTML
    tabs: gr.Tabs
    picker: gr.Dropdown
    text: gr.Textbox
    hints: gr.HTML
    notice: gr.HTML
    stage: gr.HTML
    settings: list[Any] = field(default_factory=list)
    drafted: list[Any] = field(default_factory=list)


def section_title(text: str) -> gr.HTML:
    """The heading of a tab. text: a label."""
    return gr.HTML(text, html_template="<h2>${value}</h2>", elem_classes="rp-title", apply_default_css=False)


def notice_line(elem_id: str) -> gr.HTML:
    """A place for notices, hidden while it is empty."""
    return gr.HTML("", elem_id=elem_id, elem_classes="rp-line", apply_default_css=False)
