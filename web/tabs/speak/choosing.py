"""The picked voice, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import VoiceNotFound
from web.ui.events import Picked, Sent, parsed
from web.ui.wiring import skips

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import House
    from web.identity.owners import Owner

LINK_SECONDS = 30 * 60  # fresh.js asks for new ones before


class Look(Sent):
    """The picked voice."""

    voice: Picked


class Choosing:
    """What follows when another voice is picked on the Speak tab."""

    def __init__(self, house: House) -> None:
        self._house = house

    @skips(2)
    def look(self, voice_id: Any, token: Any, request: gr.Request) -> tuple[Any, Any]:
        """What the voice's card shows, None for none; and what the helpers of the text go by (writing.js)."""
        owner = self._house.owner(token, request)
        voice = self._picked(parsed(Look, voice=voice_id).voice, owner)
        engine = self._house.engine
        hints = {"tags": engine.style_tags, "english": engine.english_only, "demo": voice.demo if voice else ""}
        return self._card(voice, owner) if voice else None, hints

    def _picked(self, voice_id: str, owner: Owner) -> VoiceRecord | None:
        try:
            return self._house.studio.voices.get(voice_id, owner=owner.key)
        except VoiceNotFound:
            return None

    def _card(self, voice: VoiceRecord, owner: Owner) -> dict[str, str]:
        url = self._house.links.sign(owner, "clip", voice.id, LINK_SECONDS)
        about = voice.description.strip()
        return {"id": voice.id, "name": voice.name, "language": voice.language, "about": about, "url": url}
