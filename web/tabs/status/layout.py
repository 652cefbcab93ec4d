"""Layout of the Status tab: the server's state, and the models to load if the host allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from web.tabs.status.file_check import FileCheckHandlers
from web.tabs.status.handlers import StatusHandlers
from web.tabs.status.views import model_choices
from web.ui.components import file_checker, status_board
from web.ui.events import broadcast_change, keep_choices, listen, show, telling_refusal
from web.ui.shared import SharedComponents, notice_line, section_title

if TYPE_CHECKING:
    from web.context import WebContext


def build(context: WebContext, shared: SharedComponents) -> None:
    """Lay out the tab and register its event listeners."""
    handlers = StatusHandlers(context)
    section_title(context.label("tab.status"))
    board = status_board()
    show(board.refresh, handlers.show_status, None, board)
    checker = file_checker()
    check = FileCheckHandlers(context).check_file
    checked = listen(checker.check, check, shared.token, checker, trigger_mode="multiple")
    checked.failure(None, js=telling_refusal())
    if context.engine.models:
        _model_choice(context, shared, handlers, board)


def _model_choice(context: WebContext, shared: SharedComponents, handlers: StatusHandlers, board: gr.HTML) -> None:
    choices, label = model_choices(context.engine), context.label
    with gr.Row(equal_height=True, elem_id="rp-models"):
        model = gr.Dropdown(
            label=label("status.choose"), info=label("status.choose_info"),
            choices=list(choices.names), value=choices.loaded, scale=3, min_width=220, elem_id="rp-model-pick",
        )  # fmt: skip
        load = gr.Button(label("status.load"), size="md", scale=1, min_width=110, elem_id="rp-model-load")
    licence = gr.HTML("", elem_id="rp-model-licence", apply_default_css=False)
    message = notice_line("rp-status-notice")
    show(model.change, handlers.show_licence, model, licence)
    keep_choices(model)
    listen(shared.demo.load, handlers.list_models, None, [model, licence])
    loaded = listen(load.click, handlers.load_model, model, [message, shared.heading, board], queue=True)
    listen(loaded.then, lambda: broadcast_change("voices"), None, shared.changes)  # models can have their own voices
