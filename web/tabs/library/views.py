"""Voices as the page shows them, wherever it does: the picker, and what the Library tab is told of a voice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput, RepriseError
from storage.repositories.usage import VoiceUse

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import House
    from web.identity.owners import Owner
    from web.ui.i18n import Words

UNUSED = VoiceUse(times=0, seconds=0.0)


def picker(house: House, owner: str, wanted: Any, words: Words) -> gr.Dropdown:
    """The picker as the library is now, with the wanted voice picked, or else the first."""
    return picker_of(house.studio.voices.list(owner=owner), wanted, words)


def picker_of(voices: Sequence[VoiceRecord], wanted: Any, words: Words) -> gr.Dropdown:
    """The picker of these voices, with the wanted one picked, or else the first."""
    ids = [voice.id for voice in voices]
    picked = wanted if wanted in ids else next(iter(ids), None)
    return gr.Dropdown(choices=_choices(voices, words), value=picked)


def picker_still(voices: Sequence[VoiceRecord], picked: Any, words: Words) -> gr.Dropdown:
    """The picker of these voices as they are now. What is picked stays, unless there is no such voice any more.

    It is not sent back as the value: who picks another voice while this is on its way must not have it undone.
    """
    if any(voice.id == picked for voice in voices):
        return gr.Dropdown(choices=_choices(voices, words))
    return picker_of(voices, picked, words)


def _choices(voices: Sequence[VoiceRecord], words: Words) -> list[tuple[str, str]]:
    return [(label(voice, words), voice.id) for voice in voices]


def label(voice: VoiceRecord, words: Words) -> str:
    """A voice's name in a list."""
    return words("voice.sample_label", name=voice.name) if voice.shared else voice.name


def contents(house: House, owner: Owner) -> dict[str, Any]:
    """Everything on the shelf, as library.js takes it; links in it are good for ten minutes.

    voices: those of one's own and the samples. bytes: what is kept takes. all: a link to one's own as one file.
    """
    library, used = house.studio.voices, house.studio.storage_use(owner=owner.key)
    uses = house.studio.history.voice_uses(owner=owner.key)
    voices = library.list(owner=owner.key)
    own = any(not voice.shared for voice in voices)
    return {
        "voices": [_card(house, owner, voice, uses.get(voice.id, UNUSED)) for voice in voices],
        "bytes": {"voices": used.voices, "takes": used.generations},
        "all": house.links.sign(owner, "voices", "all") if own else "",
    }


def _card(house: House, owner: Owner, voice: VoiceRecord, use: VoiceUse) -> dict[str, Any]:
    consent = voice.consent
    return {
        "id": voice.id,
        "name": voice.name,
        "shared": voice.shared,
        "language": voice.language,
        "description": voice.description,
        "tags": list(voice.tags),
        "seconds": voice.duration,
        "made": voice.created.isoformat(),
        "who": consent.who if consent else "",
        "agreed": consent.when.isoformat() if consent else "",
        "times": use.times,
        "spoken": use.seconds,
        "clip": house.links.sign(owner, "clip", voice.id),
        "file": house.links.sign(owner, "voice", voice.id),
    }


def checked_id(voice_id: Any, words: Words) -> str:
    """The id of a picked voice. Raises InvalidInput when none is picked."""
    if not isinstance(voice_id, str) or not voice_id:
        raise InvalidInput(words("voice.none_picked"))
    return voice_id


def forget_voices(house: House, owner: str) -> None:
    """Has the engine drop what it keeps of all voices of an owner's own, which are about to be deleted."""
    for voice in house.studio.voices.list(owner=owner):
        if not voice.shared:
            forget_voice(house, owner, voice.id)


def forget_voice(house: House, owner: str, voice_id: str) -> None:
    """Has the engine drop what it keeps of a voice that is about to be deleted; put back, it is read again."""
    with suppress(RepriseError):  # damaged, gone or protected: deleting says so
        own = house.studio.voices.own(voice_id, owner=owner)
        house.engine.forget(house.studio.voices.load(own.id, owner=owner))
