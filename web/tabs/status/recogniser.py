"""Handlers of the recogniser dialog: choose the speech recognition model and install the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.audio.transcription import MODELS, PACKAGE_MB
from engine.errors import InvalidInput
from studio.recognition import can_install
from web.ui.events import skip_on_error, with_nonce
from web.ui.messages import error_message
from web.ui.payloads import Payload, ShortText, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext
    from web.identity.owners import Owner


class ChosenModel(Payload):
    """The chosen model."""

    model: ShortText


class RecogniserHandlers:
    """Event handlers of the dialog. Their output is its value, for recogniser.js:

    ready (whether the package is installed); here (whether the model is on this machine); model, models (`name` and
    `mb`), package_mb; allowed (whether this visitor may install and choose); step and part of a running installation;
    failure (a message); nonce.
    """

    def __init__(self, context: WebContext) -> None:
        self._context = context

    @skip_on_error(1)
    def refresh(self, token: Any, request: gr.Request) -> Any:
        """Output: dialog."""
        return self._value(self._context.owner(token, request), request)

    def install(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """Output: dialog. If the package is already installed, only the model is downloaded."""
        context, problem = self._context, ""
        try:
            owner = context.owner(token, request)
            if not self._allowed(owner):
                raise InvalidInput(context.texts(request)("recogniser.operator"))
            context.recognition.install(parse_payload(ChosenModel, event).model)
        except Exception as error:
            problem = error_message(error, context.texts(request))
        state = self.refresh(token, request)
        return {**state, "failure": problem or state["failure"]} if isinstance(state, dict) else state

    def _allowed(self, owner: Owner) -> bool:
        """Return whether the visitor may install: a local visitor of a local-only server that can install packages."""
        own = self._context.owners.mode == "machine" and owner.kind == "local"
        return own and (self._context.recognition.ready or can_install())

    def _value(self, owner: Owner, request: gr.Request) -> dict[str, Any]:
        recognition, texts = self._context.recognition, self._context.texts(request)
        state, allowed = recognition.installation, self._allowed(owner)
        model = recognition.name if allowed else Path(recognition.name).name  # hides local folders from other visitors
        sizes = MODELS if model in MODELS else {**MODELS, model: 0}
        value = {
            "ready": recognition.ready and state.step is None,
            "here": recognition.model_is_here,
            "model": model,
            "models": [{"name": name, "mb": mb} for name, mb in sizes.items()],
            "package_mb": 0 if recognition.ready else PACKAGE_MB,
            "allowed": allowed,
            "step": state.step,
            "part": state.part,
            "failure": texts.write(state.failure) if state.failure else "",
        }
        return with_nonce(value)
