"""Views of voices and takes for the Speak tab's scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from studio.pictures.portraits import portrait_id
from studio.voices.available_voices import BuiltInSpeaker
from web.downloads.sounds import sound_facts
from web.ui.hearing_view import hearing_view
from web.ui.voice_picker import description_of

if TYPE_CHECKING:
    from storage.repositories.scripts.hearings import Hearing
    from storage.repositories.takes import TakeRecord
    from studio.engines.model_manager import ModelManager
    from studio.voices.available_voices import ListedVoice
    from web.downloads.links import DownloadLinks
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

LINK_SECONDS = 30 * 60  # link_refresh.js requests new ones earlier
TEXT_SHOWN = 300  # characters
LAST = "9999-12-31"  # sorts after all dates, so that model voices do not change other voices' portrait colours


def voice_card_view(voice: ListedVoice, owner: Owner, links: DownloadLinks, texts: Texts) -> dict[str, str]:
    """Return the selected voice for voice_card.js."""
    url = clip_link(voice, owner, links)
    about = description_of(voice, texts).strip()
    facts = {"id": voice.id, "name": voice.name, "language": voice.language}
    return {**facts, "about": about, "agreed": agreed(voice), "url": url}


def rail_voice_view(
    voice: ListedVoice, favourite: bool, picture: bytes, owner: Owner, links: DownloadLinks, texts: Texts
) -> dict[str, Any]:
    """Return a voice for voice_rail.js. built_in: whether it is one of the loaded model's built-in voices."""
    return {
        "id": voice.id,
        "name": voice.name,
        "picture": portrait_id(picture),
        "shared": voice.shared,
        "built_in": isinstance(voice, BuiltInSpeaker),
        "favourite": favourite,
        "language": voice.language,
        "description": description_of(voice, texts).strip(),
        "tags": list(voice.tags),
        "made": LAST if isinstance(voice, BuiltInSpeaker) else voice.created.isoformat(),
        "agreed": agreed(voice),
        "url": clip_link(voice, owner, links),
    }


def agreed(voice: ListedVoice) -> str:
    """Return the time of a voice's consent, "" for none. It changes with the voice's clips."""
    return "" if isinstance(voice, BuiltInSpeaker) or voice.consent is None else voice.consent.when.isoformat()


def clip_link(voice: ListedVoice, owner: Owner, links: DownloadLinks) -> str:
    """Return a link to a voice's clip; "" for the model's built-in voices, which have none."""
    return "" if isinstance(voice, BuiltInSpeaker) else links.sign(owner, "clip", voice.id, LINK_SECONDS)


def writing_hints(engine: ModelManager, voice: ListedVoice | None) -> dict[str, Any]:
    """Return the data for the hints below the text (writing.js)."""
    return {
        "tags": engine.info.style_tags,
        "english": engine.info.capabilities.english_only,
        "demo": voice.demo if voice else "",
    }


def take_view(take: TakeRecord, owner: Owner, links: DownloadLinks, heard: Hearing | None) -> dict[str, Any]:
    """Return a take for take_list.js. heard: the recogniser's result."""
    facts = sound_facts(take, owner, links, LINK_SECONDS)
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
        "heard": heard and hearing_view(take.text, heard),
        "links": facts["links"],
        "facts": facts,
    }
