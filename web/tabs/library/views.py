"""Views of voices for the Library tab's script."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from storage.repositories.voices.usage import VoiceUse
from storage.voices.library import TRASH_RETENTION
from studio.pictures.portraits import portrait_id
from web.tabs.new_voice.clips import has_changeable_clips
from web.ui.events import answer_time
from web.ui.voice_picker import description_of

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

_UNUSED = VoiceUse(times=0, seconds=0.0)


def library_view(context: WebContext, owner: Owner, texts: Texts) -> dict[str, Any]:
    """Return the list's value for library.js. Its links are valid for ten minutes.

    at: when it was read. voices: the owner's and the samples. bytes: storage used. all: a link to an archive of the
    owner's voices. aside: deleted voices that can be restored.
    """
    at = answer_time()
    storage = context.storage
    used, uses = storage.storage_use(owner=owner.key), storage.uses.all(owner=owner.key)
    voices, deleted = storage.voices.list_with_trash(owner=owner.key)
    pictures = storage.portraits.all(owner=owner.key)
    own = any(not voice.shared for voice in voices)
    return {
        "at": at,
        "voices": [
            _voice_view(context, owner, voice, uses.get(voice.id, _UNUSED), pictures.get(voice.id, b""), texts)
            for voice in voices
        ],
        "bytes": {"voices": used.voices, "takes": used.takes},
        "all": context.links.sign(owner, "voices", "all") if own else "",
        "aside": _deleted_voices(deleted),
    }


def _deleted_voices(deleted: list[VoiceRecord]) -> list[dict[str, Any]]:
    """Return the voices in the trash. left: seconds until permanent deletion."""
    until = datetime.now(UTC) - TRASH_RETENTION
    return [
        {"id": each.id, "name": each.name, "left": (each.trashed - until).total_seconds()}
        for each in deleted
        if each.trashed
    ]


def _voice_view(
    context: WebContext, owner: Owner, voice: VoiceRecord, use: VoiceUse, picture: bytes, texts: Texts
) -> dict[str, Any]:
    consent = voice.consent
    return {
        "id": voice.id,
        "name": voice.name,
        "picture": portrait_id(picture),
        "shared": voice.shared,
        "language": voice.language,
        "description": description_of(voice, texts),
        "tags": list(voice.tags),
        "seconds": voice.duration,
        "made": voice.created.isoformat(),
        "who": consent.who if consent else "",
        "agreed": consent.when.isoformat() if consent else "",
        "times": use.times,
        "spoken": use.seconds,
        "changeable": has_changeable_clips(voice),
        "clip": context.links.sign(owner, "clip", voice.id),
        "file": context.links.sign(owner, "voice", voice.id),
    }
