"""A visitor opens the page, or comes back to it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import DatabaseUnavailable, InvalidInput
from web.tabs.library import views
from web.ui.events import Picked, Sent, parsed
from web.ui.messages import notice, sentence_of
from web.ui.wiring import ring, skips

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import House
    from web.ui.i18n import Words

Updates = tuple[Any, ...]


class Remembered(Sent):
    """The voice that was picked when the page was open before, or is picked now."""

    voice: Picked


class Arrival:
    """Who comes, and what they find."""

    def __init__(self, house: House) -> None:
        self._house = house

    def arrive(self, token: Any, remembered: Any, request: gr.Request) -> Updates:
        """Heading, token to keep, welcome, notice, picker, and the bell for the tabs."""
        house, words = self._house, self._house.words(request)
        try:
            return self._arrived(token, parsed(Remembered, voice=remembered).voice, request)
        except (InvalidInput, DatabaseUnavailable) as error:
            said = notice(sentence_of(error, words), "bad")
            return heading(house, words), gr.skip(), gr.skip(), said, gr.skip(), gr.skip()

    def _arrived(self, token: Any, remembered: str, request: gr.Request) -> Updates:
        house, words = self._house, self._house.words(request)
        arrival = house.owners.welcome(request, token)
        said = notice(words("owner.refused"), "bad") if arrival.refused else ""
        voices = house.studio.voices.list(owner=arrival.owner.key)
        picker = views.picker_of(voices, remembered, words)
        greeting = self._greeting(voices, arrival.owner.key, words)
        return heading(house, words), arrival.token, greeting, said, picker, ring("voices", "history")

    @skips(3)
    def come_back(self, picked: Any, token: Any, request: gr.Request) -> Updates:
        """Heading, and welcome and picker as the library is now; the pick stays as long as there is such a voice."""
        house, words = self._house, self._house.words(request)
        owner = house.owner(token, request).key
        voices = house.studio.voices.list(owner=owner)
        greeting = self._greeting(voices, owner, words)
        return (
            heading(house, words),
            greeting,
            views.picker_still(voices, parsed(Remembered, voice=picked).voice, words),
        )

    def _greeting(self, voices: Sequence[VoiceRecord], owner: str, words: Words) -> gr.HTML:
        """The welcome, which is there for who has neither made a voice nor heard one."""
        newcomer = all(voice.shared for voice in voices) and not self._house.studio.history.voice_uses(owner=owner)
        return gr.HTML(welcome(words) if newcomer else "", visible=newcomer)


def heading(house: House, words: Words) -> str:
    """HTML of the page's name and of the model's; what it is doing is under Status."""
    engine = house.engine
    notice = escape(engine.notice)
    remarks = f'<p class="rp-model-notice" title="{notice}">{notice}</p>' if notice else ""
    name = f"<strong>{escape(engine.name)}</strong>"
    model = words("heading.running", name=name, device=escape(engine.device))
    return f"""
<header class="rp-heading">
  <div><h1>Reprise</h1><p>{escape(words("heading.tagline"))}</p></div>
  <aside class="rp-model" aria-label="{escape(words("heading.model"))}">
    <p>{model}</p>
    {remarks}
  </aside>
</header>"""


def welcome(words: Words) -> str:
    """HTML of what is said to who has no voice yet."""
    text = f"<h2>{escape(words('welcome.title'))}</h2><p>{escape(words('welcome.text'))}</p>"
    return f'<div class="rp-welcome">{text}</div>'
