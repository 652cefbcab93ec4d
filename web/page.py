"""The page: its tabs and the components that they share. `web.launch` launches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from web.draft import OPENING, keep_draft
from web.gradio_internals import RawInputBlocks
from web.page_load import PageLoadHandlers, heading_html
from web.tabs.history import layout as history
from web.tabs.library import layout as library
from web.tabs.library.pictures import PictureHandlers
from web.tabs.new_voice import layout as new_voice
from web.tabs.script import layout as script
from web.tabs.speak import layout as speak
from web.tabs.speak.dictionary import DictionaryHandlers
from web.tabs.speak.layout import FIRST_TEXT
from web.tabs.speak.settings import keep_to_model, open_if_changed
from web.tabs.status import layout as status
from web.tabs.status.recogniser import RecogniserHandlers
from web.ui.components import (
    change_broadcast,
    changed_voice,
    connection,
    dictionary,
    owner_key,
    player,
    recogniser,
    saved_voice,
    switches,
    voice_pictures,
    welcome,
    writing,
)
from web.ui.events import keep_choices, listen, show
from web.ui.shared import SharedComponents

if TYPE_CHECKING:
    from web.context import WebContext

HOURS_KEPT = 6  # of Gradio's cached files; longer than any job
QUEUE_SIZE = 200  # events; they start immediately and wait in the engine's own queue
# In display order. Handlers select a tab by its id.
TABS = {
    "speak": speak.build,
    "new": new_voice.build,
    "library": library.build,
    "script": script.build,
    "history": history.build,
    "status": status.build,
}


def create_app(context: WebContext) -> gr.Blocks:
    """Build the page."""
    demo: gr.Blocks
    with RawInputBlocks(title="Reprise", analytics_enabled=False, delete_cache=(600, HOURS_KEPT * 3600)) as demo:
        heading = gr.HTML(heading_html(context, None), elem_id="rp-heading", apply_default_css=False)
        switches(context.translations.names)
        if context.owners.mode == "hub":
            # In English, because Gradio compares the text. No icon: the gate does not serve its file.
            gr.LoginButton(size="sm", icon=None, elem_id="rp-sign-in")
        first_steps = welcome(render=False)
        token, changes = owner_key(), change_broadcast()
        with gr.Tabs(selected="speak", elem_id="rp-tabs") as tabs:
            shared = _shared_components(context, demo, token, heading, changes, tabs)
            each: dict[str, gr.Tab] = {}
            for name, build in TABS.items():
                label, elem_id = context.label(f"tab.{name}"), f"rp-tab-{name}"
                with gr.Tab(label, id=name, elem_id=elem_id, render_children=True) as each[name]:
                    if name == "speak":
                        first_steps.render()
                    build(context, shared)
        _listen_to_recogniser(RecogniserHandlers(context), shared)
        _listen_to_dictionary(DictionaryHandlers(context), shared)
        pictures = voice_pictures()
        listen(pictures.fetch, PictureHandlers(context).send_pictures, token, pictures, trigger_mode="multiple")
        with gr.Column(elem_id="rp-dock"):
            line = connection()
            shared.saved.render()
            shared.player.render()
        handlers = PageLoadHandlers(context)
        opened, contents = [token, shared.picker], [heading, token, first_steps, shared.notice, shared.picker, changes]
        for event in (demo.load, changes.reopen):
            listen(event, handlers.load_page, opened, contents, js=OPENING)
        # "multiple": an earlier request may hang on a connection that is dead by now.
        listen(line.back, handlers.load_page, opened, contents, trigger_mode="multiple")
        keep_choices(shared.picker)
        filled = keep_draft(changes, shared.persisted, tabs, each)
        open_if_changed(shared.settings, filled.then)
        keep_to_model(context, shared.settings, (filled.then, changes.voices))
        show(
            changes.voices,
            handlers.refresh_page,
            [shared.picker, token],
            [heading, first_steps, shared.picker, shared.notice],
        )
    demo.queue(max_size=QUEUE_SIZE, api_open=False)
    return demo


def _listen_to_recogniser(handlers: RecogniserHandlers, shared: SharedComponents) -> None:
    dialog = recogniser()
    for event in (shared.changes.opened, dialog.refresh):
        show(event, handlers.refresh, shared.token, dialog)
    listen(dialog.install, handlers.install, shared.token, dialog)


def _listen_to_dictionary(handlers: DictionaryHandlers, shared: SharedComponents) -> None:
    entries = dictionary()
    for event in (shared.changes.opened, shared.changes.words):
        show(event, handlers.list_entries, shared.token, entries)
    for event, handler in (
        (entries.save_entry, handlers.save_entry),
        (entries.erase, handlers.erase),
        (entries.import_entries, handlers.import_entries),
    ):
        listen(event, handler, shared.token, [entries, shared.changes], trigger_mode="multiple")


def _shared_components(
    context: WebContext, demo: gr.Blocks, token: gr.HTML, heading: gr.HTML, changes: gr.HTML, tabs: gr.Tabs
) -> SharedComponents:
    label = context.label
    picker = gr.Dropdown(label=label("voice.pick"), choices=[], value=None, elem_id="rp-picker", render=False)
    text = gr.Textbox(
        label=label("speech.text"), value=FIRST_TEXT, lines=4, max_lines=16, elem_id="rp-text", render=False
    )
    hints = writing(FIRST_TEXT, render=False)
    message = gr.HTML("", elem_id="rp-speak-notice", elem_classes="rp-line", apply_default_css=False, render=False)
    return SharedComponents(
        demo=demo, token=token, heading=heading, changes=changes, tabs=tabs,
        picker=picker, text=text, hints=hints, notice=message,
        player=player(context.engine.info.sample_rate, render=False), changed=changed_voice(render=False),
        saved=saved_voice(render=False),
    )  # fmt: skip
