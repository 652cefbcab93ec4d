"""Handlers of the voice rail: its voices and favourites."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gradio as gr

from storage.errors import VoiceNotFound
from web.tabs.speak.views import rail_voice_view
from web.ui.events import answer_time, skip_on_error
from web.ui.payloads import Id, Payload, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext


class FavouriteMark(Payload):
    """A voice and its new favourite state."""

    id: Id
    marked: bool


class RailHandlers:
    """Event handlers of the rail."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    @skip_on_error(1)
    def list_voices(self, token: Any, request: gr.Request) -> Any:
        """Output: rail, with new links."""
        owner, texts = self._context.owner(token, request), self._context.texts(request)
        at = answer_time()
        voices = self._context.voices.list(owner=owner.key)
        marked = self._context.storage.favourites.ids(owner=owner.key)
        pictures, links = self._context.storage.portraits.all(owner=owner.key), self._context.links
        views = [
            rail_voice_view(voice, voice.id in marked, pictures.get(voice.id, b""), owner, links, texts)
            for voice in voices
        ]
        return {"voices": views, "at": at}

    @skip_on_error(1)
    def mark_voice(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """Output: rail, without the voice if it was deleted meanwhile."""
        owner, mark = self._context.owner(token, request), parse_payload(FavouriteMark, event)
        with suppress(VoiceNotFound):
            voice = self._context.voices.get(mark.id, owner=owner.key)
            self._context.storage.favourites.mark(voice.id, mark.marked, owner=owner.key)
        return self.list_voices(token, request)
