"""Making a voice of one clip for a program, which has no form to look at meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import InvalidInput, NameTaken
from engine.voice import Consent, clean_name

if TYPE_CHECKING:
    from storage import VoiceRecord
    from studio.context import AppContext


def make_voice(
    app: AppContext,
    name: str,
    clip: bytes,
    transcript: str,
    *,
    owner: str,
    consent: Consent,
    language: str = "en",
    description: str = "",
) -> VoiceRecord:
    """Make a voice and save it. The name is checked first, since making takes longer.

    transcript: the words of the clip; without one they are written down where faster-whisper is installed, and models
        that can do so clone without them.
    Raises NameTaken, UnusableReference, InvalidInput, EngineFailed.
    """
    cleaned = clean_name(name)
    voices = app.storage.voices
    if any(each.name.casefold() == cleaned.casefold() and not each.shared for each in voices.list(owner=owner)):
        raise NameTaken("voices.name_taken", name=cleaned)
    if not transcript.strip():
        if app.recognition.ready:
            transcript = app.recognition.hear(clip)
        elif app.engine.abilities.needs_words:
            raise InvalidInput("reference.no_words")
    made = app.engine.encode_voice(
        cleaned, [(clip, transcript)], language=language, description=description, consent=consent
    )
    return voices.add(made.voice, owner=owner)
