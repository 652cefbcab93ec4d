"""Components shared by several tabs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gradio as gr

FOCUS_TEXT = "() => { reprise.beginWriting(); }"  # of Speak


@dataclass(frozen=True)
class SharedComponents:
    """The components that tabs may read and update.

    token: the browser's owner token, an input of every event. heading: the page's heading with the model's name.
    changes: accepts a `ChangeBroadcast`; its events `voices`, `voice_list` (for the Library), `history`, `scripts`,
    `words` and `forgotten` fire in all pages of this browser. tabs: selects a tab by id. picker, text, hints, notice,
    settings: components of the Speak tab. It fills `settings` in the order of `web.tabs.speak.settings.NAMES`, followed
    by their accordion. player: it is shown below every tab. changed: the voice whose clips the New voice tab changes,
    None for a new voice. saved: the voice that was just saved, shown above the player.
    persisted: components whose values survive a reload; tabs add to it.
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
    player: gr.HTML
    changed: gr.HTML
    saved: gr.HTML
    settings: list[Any] = field(default_factory=list)
    persisted: list[Any] = field(default_factory=list)


def section_title(text: str) -> gr.HTML:
    """Create the heading of a tab. text: a label."""
    return gr.HTML(text, html_template="<h2>${value}</h2>", elem_classes="rp-title", apply_default_css=False)


def notice_line(elem_id: str) -> gr.HTML:
    """Create a line for notices, hidden while empty."""
    return gr.HTML("", elem_id=elem_id, elem_classes="rp-line", apply_default_css=False)
