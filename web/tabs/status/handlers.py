"""Handlers of the Status tab: show the server's state, and load another model if the host allows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr

from engine.errors import InvalidInput
from web.page_load import heading_html
from web.tabs.status.views import licence_html, model_choices, status_view
from web.ui.messages import error_message, notice
from web.ui.payloads import Payload, ShortText, default_if_invalid, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext
    from web.ui.i18n import Texts

Updates = tuple[Any, ...]


class SelectedModel(Payload):
    """The selected model, "" for an invalid value."""

    model: Annotated[ShortText, default_if_invalid("")]


class StatusHandlers:
    """Event handlers of the Status tab."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    def show_status(self, request: gr.Request) -> dict[str, Any]:
        """Output: board."""
        return status_view(self._context, request.session_hash or "", self._context.texts(request))

    def list_models(self, request: gr.Request) -> Updates:
        """Outputs: the models to choose from, with the loaded one selected; its licence notice."""
        choices = model_choices(self._context.engine)
        return gr.Dropdown(choices=list(choices.names), value=choices.loaded), self.show_licence(
            choices.loaded, request
        )

    def show_licence(self, model: Any, request: gr.Request) -> str:
        """Output: HTML of a model's licence notice."""
        engine, selected = self._context.engine, parse_payload(SelectedModel, model=model).model
        licence = engine.models.get(model_choices(engine).names.get(selected, ""))
        return licence_html(self._context.texts(request).write(licence) if licence else "")

    def load_model(self, model: Any, request: gr.Request) -> Iterator[Updates]:
        """Outputs: notice, heading, board; before and after loading. The model is loaded for all visitors."""
        context, texts = self._context, self._context.texts(request)
        try:
            wanted = parse_payload(SelectedModel, model=model).model
            found = self._check_model(wanted, texts)
            yield notice(texts("status.loading_now", model=wanted), "busy"), gr.skip(), gr.skip()
            context.engine.switch(found)
        except Exception as error:
            yield notice(error_message(error, texts), "bad"), heading_html(context, request), self.show_status(request)
            return
        loaded = notice(texts("status.loaded", model=wanted))
        yield loaded, heading_html(context, request), self.show_status(request)

    def _check_model(self, selected: str, texts: Texts) -> str:
        engine = self._context.engine
        model = model_choices(engine).names.get(selected)
        if model is None:
            raise InvalidInput(texts("status.unknown"))
        if model == engine.info.name and engine.loading is None:
            raise InvalidInput(texts("status.already", model=selected))
        return model
