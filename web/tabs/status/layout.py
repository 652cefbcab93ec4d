"""Status: the model, what it is doing, and another one where the host allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from web.tabs.status.handlers import Watching
from web.ui.components import status_board
from web.ui.wiring import Shared, line, quick, title

if TYPE_CHECKING:
    from web.context import House


def build(house: House, shared: Shared) -> None:
    """Lays out the tab and ties its events."""
    events = Watching(house)
    title(house.label("tab.status"))
    board = status_board()
    quick(board.look, events.look, None, board)
    if house.engine.models:
        _models(house, shared, events, board)


def _models(house: House, shared: Shared, events: Watching, board: gr.HTML) -> None:
    label = house.label
    with gr.Row(equal_height=True, elem_id="rp-models"):
        picked = gr.Dropdown(
            label=label("status.choose"), info=label("status.choose_info"),
            choices=list(house.engine.models), value=house.engine.name, scale=3, min_width=220, elem_id="rp-model-pick",
        )  # fmt: skip
        load = gr.Button(label("status.load"), size="md", scale=1, min_width=110, elem_id="rp-model-load")
    licence = gr.HTML(events.licence(house.engine.name), elem_id="rp-model-licence", apply_default_css=False)
    said = line("rp-status-notice")
    quick(picked.change, events.licence, picked, licence)
    quick(shared.demo.load, events.choices, None, picked)
    load.click(
        events.load, picked, [said, shared.heading, board],
        show_progress="hidden", preprocess=False, api_visibility="private", concurrency_limit=None,
    )  # fmt: skip
