"""The list of a session's takes: what each is, the star, deleting."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import GenerationNotFound, InvalidInput
from web.face.sentences import notice, sentence_of
from web.face.wiring import ring
from web.speak.choosing import LINK_SECONDS
from web.takes.sounds import FORMATS

if TYPE_CHECKING:
    from storage.generations import GenerationRecord
    from web.house import House
    from web.visitors.owners import Owner

MOST_TAKES = 40  # as take_list.js has it
TEXT_SHOWN = 300  # characters
Updates = tuple[Any, ...]


class Taking:
    """The events of the take list. Each is sent the ids that are shown, of which only the owner's own count."""

    def __init__(self, house: House) -> None:
        self._house = house

    def list(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """The takes that are there, with fresh links, and the ids of those that are not."""
        try:
            return self._answer(self._house.owner(token, request), event.ids)
        except InvalidInput:  # the page is about to be given another key
            return gr.skip()

    def star(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """List, notice, bell."""
        try:
            owner = self._house.owner(token, request)
            self._house.takes.star(str(event.id), bool(event.starred), owner=owner.key)
            return self._answer(owner, event.ids), "", ring("history")
        except Exception as error:
            return self._trouble(error, request)

    def delete(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """List, notice, bell."""
        try:
            owner = self._house.owner(token, request)
            self._house.takes.delete(str(event.id), owner=owner.key)
            return self._answer(owner, event.ids), "", ring("history")
        except Exception as error:
            return self._trouble(error, request)

    def seed(self, event: gr.EventData) -> Updates:
        """The seed to speak with from now on, and the settings opened, where it is seen."""
        return str(int(event.seed)), gr.Accordion(open=True)

    def _trouble(self, error: Exception, request: gr.Request) -> Updates:
        return gr.skip(), notice(sentence_of(error, self._house.words(request)), "bad"), ring("history")

    def _answer(self, owner: Owner, ids: Any) -> dict[str, Any]:
        asked = [take_id for take_id in ids if isinstance(take_id, str)][:MOST_TAKES] if isinstance(ids, list) else []
        takes, gone = [], []
        for take_id in asked:
            try:
                takes.append(self._shown(self._house.takes.get(take_id, owner=owner.key), owner))
            except GenerationNotFound:
                gone.append(take_id)
        # The same answer twice would be no news to the page.
        return {"takes": takes, "gone": gone, "once": secrets.token_hex(4)}

    def _shown(self, take: GenerationRecord, owner: Owner) -> dict[str, Any]:
        sign = self._house.links.sign
        return {
            "id": take.id,
            "text": take.text[:TEXT_SHOWN],
            "voice": take.voice_name,
            "seconds": take.duration,
            "seed": take.seed,
            "first": take.first_audio,
            "factor": take.real_time_factor,
            "reason": take.stop_reason,
            "starred": take.starred,
            "listed": take.listed,
            "links": {form: sign(owner, "take", f"{take.id}.{form}", LINK_SECONDS) for form in FORMATS},
        }
