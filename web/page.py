"""The page: its tabs, and how a visitor arrives. `web.serve` launches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from web import page_load
from web.tabs.history import layout as history
from web.tabs.library import layout as library
from web.tabs.new_voice import layout as new_voice
from web.tabs.script import layout as script
from web.tabs.speak import layout as speak
from web.tabs.speak.handlers import FIRST_TEXT
from web.tabs.status import layout as status
from web.ui.blocks import Page
from web.ui.components import change_broadcast, owner_key, player
from web.ui.wiring import Shared, quick

if TYPE_CHECKING:
    from web.context import House

HOURS_KEPT = 6  # finished takes and forgotten uploads; longer than any job
QUEUE_SIZE = 200  # events that came in the same moment: each begins at once, and waits where its own line is
# In this order; a tab's id is also how others have it shown.
TABS = {
    "speak": speak.build,
    "new": new_voice.build,
    "library": library.build,
    "script": script.build,
    "history": history.build,
    "status": status.build,
}
# Read here and not from the component, whose script may not have run yet. Storage may be refused altogether.
REMEMBERED = """() => {
  try { return [localStorage.getItem('reprise.owner'), localStorage.getItem('reprise.voice')]; }
  catch { return [null, null]; }
}"""


def create_app(house: House) -> gr.Blocks:
    """The page over an engine and what is kept."""
    with Page(title="Reprise", analytics_enabled=False, delete_cache=(600, HOURS_KEPT * 3600)) as demo:
        nobody = house.words(None)
        heading = gr.HTML(page_load.heading(house, nobody), elem_id="rp-heading", apply_default_css=False)
        if house.owners.way == "hub":
            gr.LoginButton(size="sm", elem_id="rp-sign-in")  # in English: Gradio compares its text
        welcome = gr.HTML("", visible=False, apply_default_css=False, elem_id="rp-welcome", render=False)
        token, parts = owner_key(), change_broadcast()
        with gr.Tabs(selected="speak", elem_id="rp-tabs") as tabs:
            shared = _shared(house, demo, token, heading, parts, tabs)
            for name, build in TABS.items():
                with gr.Tab(house.label(f"tab.{name}"), id=name, elem_id=f"rp-tab-{name}", render_children=True):
                    if name == "speak":
                        welcome.render()
                    build(house, shared)
        with gr.Column(elem_id="rp-dock"):
            shared.stage.render()
        events = page_load.Arrival(house)
        quick(
            demo.load,
            events.arrive,
            [token, shared.picker],
            [heading, token, welcome, shared.notice, shared.picker, shared.bell],
            js=REMEMBERED,
        )
        quick(shared.bell.voices, events.come_back, [shared.picker, token], [heading, welcome, shared.picker])
    demo.queue(max_size=QUEUE_SIZE, api_open=False)
    return demo


def _shared(house: House, demo: gr.Blocks, token: gr.HTML, heading: gr.HTML, rung: gr.HTML, tabs: gr.Tabs) -> Shared:
    label = house.label
    picker = gr.Dropdown(label=label("voice.pick"), choices=[], value=None, elem_id="rp-picker", render=False)
    text = gr.Textbox(
        label=label("speech.text"), value=FIRST_TEXT, lines=4, max_lines=16, elem_id="rp-text", render=False
    )
    said = gr.HTML("", elem_id="rp-speak-notice", elem_classes="rp-line", apply_default_css=False, render=False)
    stage = player(house.engine.sample_rate, render=False)
    return Shared(
        demo=demo, token=token, heading=heading, bell=rung, tabs=tabs,
        picker=picker, text=text, notice=said, stage=stage,
    )  # fmt: skip
