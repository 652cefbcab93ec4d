"""The list of a session's takes: what each is, the star, deleting."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import Field

from engine.engine import MAX_SEED
from engine.errors import GenerationNotFound
from web.downloads.sounds import FORMATS
from web.tabs.speak.choosing import LINK_SECONDS
from web.ui.events import Id, Ids, Sent, parsed
from web.ui.messages import notice, sentence_of
from web.ui.wiring import ring, skips

if TYPE_CHECKING:
    from storage.repositories.generations import GenerationRecord
    from web.context import House
    from web.identity.owners import Owner

TEXT_SHOWN = 300  # characters
Updates = tuple[Any, ...]


class Shown(Sent):
    """The takes that are shown."""

    ids: Ids


class Star(Shown):
    """A take to mark, or not to mark any more."""

    id: Id
    starred: bool


class Erase(Shown):
    """A take to delete."""

    id: Id


class Seed(Sent):
    """A seed to speak with."""

    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]


class Taking:
    """The events of the take list. Each is sent the ids that are shown, of which only the owner's own count."""

    def __init__(self, house: House) -> None:
        self._house = house

    @skips(1)
    def list(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """The takes that are there, with fresh links, and the ids of those that are not."""
        return self._answer(self._house.owner(token, request), parsed(Shown, event).ids)

    def star(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """List, notice, bell."""
        try:
            owner, sent = self._house.owner(token, request), parsed(Star, event)
            self._house.takes.star(sent.id, sent.starred, owner=owner.key)
            return self._answer(owner, sent.ids), "", ring("history")
        except Exception as error:
            return self._trouble(error, request)

    def delete(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """List, notice, bell."""
        try:
            owner, sent = self._house.owner(token, request), parsed(Erase, event)
            self._house.takes.delete(sent.id, owner=owner.key)
            return self._answer(owner, sent.ids), "", ring("history")
        except Exception as error:
            return self._trouble(error, request)

    @skips(2)
    def seed(self, event: gr.EventData) -> Updates:
        """The seed to speak with from now on, and the settings opened, where it is seen."""
        return str(parsed(Seed, event).seed), gr.Accordion(open=True)

    def _trouble(self, error: Exception, request: gr.Request) -> Updates:
        return gr.skip(), notice(sentence_of(error, self._house.words(request)), "bad"), ring("history")

    def _answer(self, owner: Owner, ids: Ids) -> dict[str, Any]:
        takes, gone = [], []
        for take_id in ids:
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
