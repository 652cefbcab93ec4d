"""Handler of the loader of voices' pictures, which the page requests for the voices that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from studio.pictures.portraits import portrait_url
from web.ui.events import skip_on_error, with_nonce
from web.ui.payloads import Ids, Payload, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext


class ShownVoices(Payload):
    """Voices that the page shows."""

    ids: Ids


class PictureHandlers:
    """Event handler of the loader."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    @skip_on_error(1)
    def send_pictures(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """Output: loader, with the pictures of the voices in the event, by their ids: a data URL, or "" for none."""
        owner, ids = self._context.owner(token, request), parse_payload(ShownVoices, event).ids
        found = self._context.storage.portraits.some(ids, owner=owner.key)
        pictures = {voice_id: portrait_url(found[voice_id]) if voice_id in found else "" for voice_id in ids}
        return with_nonce({"pictures": pictures})
