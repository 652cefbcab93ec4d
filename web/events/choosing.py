"""The picked voice: what is known of it, and what it might say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from web.events.speaking import FIRST_TEXT

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.house import House
    from web.owners import Owner

LINK_SECONDS = 30 * 60  # fresh.js asks for new ones before


class Choosing:
    """What follows when another voice is picked on the Speak tab."""

    def __init__(self, house: House) -> None:
        self._house = house

    def look(self, voice_id: Any, token: Any, request: gr.Request) -> tuple[Any, Any]:
        """What the voice's card shows, None for none; and what the helpers of the text go by (writing.js)."""
        try:
            owner = self._house.owner(token, request)
        except InvalidInput:  # the page is about to be given another key
            return gr.skip(), gr.skip()
        voice = next((voice for voice in self._voices(owner) if voice.id == voice_id), None)
        engine = self._house.engine
        hints = {"tags": engine.style_tags, "english": engine.english_only, "demo": voice.demo if voice else ""}
        return self._card(voice, owner) if voice else None, hints

    def suggest(self, voice_id: Any, text: Any, token: Any, request: gr.Request) -> Any:
        """The text to speak: the picked voice's demo sentence, unless something was written already."""
        try:
            voices = self._voices(self._house.owner(token, request))
        except InvalidInput:
            return gr.skip()
        demo = next((voice.demo for voice in voices if voice.id == voice_id), "")
        untouched = {"", FIRST_TEXT, *(voice.demo for voice in voices)}
        return demo if demo and str(text or "").strip() in untouched else gr.skip()

    def _voices(self, owner: Owner) -> list[VoiceRecord]:
        return self._house.studio.voices.list(owner=owner.key)

    def _card(self, voice: VoiceRecord, owner: Owner) -> dict[str, str]:
        url = self._house.links.sign(owner, "clip", voice.id, LINK_SECONDS)
        about = voice.description.strip()
        return {"id": voice.id, "name": voice.name, "language": voice.language, "about": about, "url": url}
