"""Layout of the Script tab: a long text as cards that are spoken in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from web.tabs.script.handlers import SUFFIXES, ScriptHandlers
from web.tabs.speak.settings import NAMES
from web.ui.components import script_editor
from web.ui.events import listen, telling_refusal
from web.ui.shared import SharedComponents, notice_line, section_title

if TYPE_CHECKING:
    from web.context import WebContext

# The component's script only runs when the tab is first shown, which may be after the first broadcast.
REFRESH = "() => { window.repriseScriptMissedRefresh = true; window.repriseScript?.refresh(); }"
READING = "() => window.repriseScript.readingNotice()"


def build(context: WebContext, shared: SharedComponents) -> None:
    """Lay out the tab and register its event listeners."""
    handlers, label, token = ScriptHandlers(context), context.label, shared.token
    section_title(label("tab.script"))
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
            gr.Button(label("script.upload"), min_width=140, elem_id="rp-script-upload")  # the editor's script listens
        trouble = notice_line("rp-script-notice")
    shared.persisted.append(text)
    desk = script_editor(SUFFIXES)
    made = [trouble, text, desk, shared.changes]
    listen(make.click, handlers.create_script, [text, shared.picker, token], made)
    imported = [trouble, desk, shared.changes]
    desk.bring(None, None, trouble, js=READING, queue=False, api_visibility="private", trigger_mode="multiple")
    reading = listen(desk.bring, handlers.import_script, [shared.picker, token], imported, trigger_mode="multiple")
    reading.failure(None, None, trouble, js=telling_refusal("return '';"), queue=False, api_visibility="private")
    moved = [shared.notice, shared.text, desk, shared.changes, shared.tabs]
    speed = shared.settings[NAMES.index("speed")]
    listen(shared.hints.to_script, handlers.move_text, [shared.text, shared.picker, speed, token], moved)
    listen(desk.act, handlers.run_action, token, [desk, shared.changes], trigger_mode="multiple")
    # Page load broadcasts a change of voices once the owner is known.
    for changed in (shared.changes.voices, shared.changes.scripts, shared.changes.history):
        changed(None, None, None, js=REFRESH, queue=False, api_visibility="private")
