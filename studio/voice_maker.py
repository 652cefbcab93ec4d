"""Making a voice of one clip, for a program that has no form to look at meanwhile, or of a description."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from engine.errors import InvalidInput, NameTaken
from engine.voice import Consent, OwnVoice, clean_name
from studio.takes.buffer import TakeBuffer

if TYPE_CHECKING:
    from storage import VoiceRecord
    from studio.context import AppContext
    from studio.model_manager import ModelManager

SAMPLE_TEXT = (
    "Good morning. The rain has stopped, and the first birds are singing again. "
    "Shall we go for a walk along the river before breakfast?"
)


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
    check_clones(app.engine)
    cleaned = _free_name(app, name, owner)
    if not transcript.strip():
        if app.recognition.ready:
            transcript = app.recognition.hear(clip)
        elif app.engine.abilities.needs_words:
            raise InvalidInput("reference.no_words")
    made = app.engine.encode_voice(
        cleaned, [(clip, transcript)], language=language, description=description, consent=consent
    )
    return app.storage.voices.add(made.voice, owner=owner)


def describe_voice(app: AppContext, name: str, description: str, *, owner: str) -> VoiceRecord:
    """Make a voice that is described in words, and save it. Models that clone follow the sample that is kept with it.

    Raises NameTaken, InvalidOption for a model that takes no description, InvalidInput, and what `speak` raises.
    """
    engine, cleaned, described = app.engine, _free_name(app, name, owner), description.strip()
    take = TakeBuffer(engine.sample_rate)
    with closing(engine.speak(SAMPLE_TEXT, OwnVoice(description=described), owner=owner)) as speech:
        for chunk in speech:
            take.add(chunk)
    made = engine.encode_voice(cleaned, [(take.encode(), SAMPLE_TEXT)], description=described)
    return app.storage.voices.add(made.voice, owner=owner)


def check_clones(engine: ModelManager) -> None:
    """Raises InvalidInput where the loaded model makes no voices of clips."""
    able = engine.abilities
    if not able.clones:
        raise InvalidInput("engine.describes_only" if able.describes else "engine.no_cloning")


def _free_name(app: AppContext, name: str, owner: str) -> str:
    """A clean name that none of the owner's voices has. Raises NameTaken, InvalidName."""
    cleaned = clean_name(name)
    voices = app.storage.voices.list(owner=owner)
    if any(each.name.casefold() == cleaned.casefold() and not each.shared for each in voices):
        raise NameTaken("voices.name_taken", name=cleaned)
    return cleaned
