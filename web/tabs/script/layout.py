"""Script: a long text as cards that are spoken one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from studio.script.runner import ScriptRunner
from web.tabs.script.handlers import Scripts
from web.ui.components import script_editor
from web.ui.wiring import Shared, line, quick, title

if TYPE_CHECKING:
    from web.context import House

SUFFIXES = [".txt", ".md", ".markdown", ".srt", ".vtt"]
# The desk's script may come after the bell: it runs when the tab is first shown.
REFRESH = "() => { window.repriseScriptRung = true; window.repriseScript?.refresh(); }"


def build(house: House, shared: Shared) -> None:
    """Lays out the tab and ties its events."""
    events, label, token = Scripts(house, ScriptRunner(house.engine, house.studio)), house.label, shared.token
    title(label("tab.script"))
    with gr.Column(elem_id="rp-script-new"):
        gr.HTML(label("script.intro"), html_template="<p>${value}</p>", elem_classes="rp-lead", apply_default_css=False)
        text = gr.Textbox(
            label=label("script.text"),
            placeholder=label("script.text_hint"),
            lines=6,
            max_lines=14,
            elem_id="rp-script-text",
        )
        gr.HTML(label("script.help"), html_template="<p>${value}</p>", elem_classes="rp-lead", apply_default_css=False)
        with gr.Row():
            make = gr.Button(label("script.make"), variant="primary", min_width=140, elem_id="rp-script-make")
            bring = gr.UploadButton(
                label("script.upload"), file_types=SUFFIXES, min_width=140, elem_id="rp-script-upload"
            )
        trouble = line("rp-script-notice")
    desk = script_editor()
    made = [trouble, text, desk, shared.bell]
    quick(make.click, events.create, [text, shared.picker, token], made)
    quick(bring.upload, events.take_in, [bring, shared.picker, token], [trouble, desk, shared.bell])
    quick(desk.act, events.act, token, [desk, shared.bell], trigger_mode="multiple")
    # The page arrives with the bell for voices, and only then is it known whose scripts these are.
    for rung in (shared.bell.voices, shared.bell.scripts, shared.bell.history):
        rung(None, None, None, js=REFRESH, queue=False, api_visibility="private")
