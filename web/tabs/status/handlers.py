"""What the server is doing, without a word about anybody; and another model, where the host allows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr

from engine.errors import InvalidInput
from studio.model_manager import ModelChanging
from web.page_load import heading
from web.tabs.status.machine import memory
from web.ui.events import Line, Sent, otherwise, parsed
from web.ui.messages import notice, sentence_of

if TYPE_CHECKING:
    from web.context import House
    from web.ui.i18n import Words

Updates = tuple[Any, ...]


class Model(Sent):
    """The model that is chosen, "" for what is none."""

    model: Annotated[Line, otherwise("")]


class Watching:
    """The events of the Status tab."""

    def __init__(self, house: House) -> None:
        self._house = house

    def look(self, request: gr.Request) -> dict[str, Any]:
        """What the board shows. Of the queue only the reader's own place is told."""
        engine = self._house.engine
        status, before = engine.status(), self._house.running.place_of(request.session_hash or "")
        loading = engine.loading
        return {
            "name": engine.name,
            "notice": engine.notice,
            "device": engine.device,
            "precision": status.precision,
            "graphs": status.graphs,
            "slots": status.slots,
            "speaking": status.speaking,
            "waiting": status.waiting,
            "place": None if before is None else before + 1,
            "wait": engine.pace.wait(status.slots, before),
            "factor": engine.pace.factor,
            "memory": memory(),
            "device_memory": status.device_memory,
            "prepared": sum(status.prefixes),
            "uptime": int(time.monotonic() - engine.started),
            "loading": loading and {"name": loading.model, "waits": loading.waits, "done": loading.done},
        }

    def choices(self) -> Any:
        """The models to choose from, with the one that is loaded chosen."""
        engine = self._house.engine
        return gr.Dropdown(choices=list(engine.models), value=engine.name)

    def licence(self, model: Any) -> str:
        """HTML of what a model is licensed for, to be read before it is loaded."""
        note = self._house.engine.models.get(parsed(Model, model=model).model, "")
        return f'<p class="rp-licence">{escape(note)}</p>' if note else ""

    def load(self, model: Any, request: gr.Request) -> Iterator[Updates]:
        """Notice, the page's heading, and the board, before and after; the model is then everyone's."""
        house, words = self._house, self._house.words(request)
        try:
            wanted = self._allowed(parsed(Model, model=model).model, words)
            yield notice(words("status.loading_now", model=wanted), "busy"), gr.skip(), gr.skip()
            house.engine.switch(wanted)
        except Exception as error:
            yield notice(_sentence(error, words), "bad"), heading(house, words), self.look(request)
            return
        yield notice(words("status.loaded", model=wanted)), heading(house, words), self.look(request)

    def _allowed(self, model: str, words: Words) -> str:
        engine = self._house.engine
        if model not in engine.models:
            raise InvalidInput(words("status.unknown"))
        if model == engine.name and engine.loading is None:
            raise InvalidInput(words("status.already", model=model))
        return model


def _sentence(error: Exception, words: Words) -> str:
    return str(error) if isinstance(error, ModelChanging) else sentence_of(error, words)
