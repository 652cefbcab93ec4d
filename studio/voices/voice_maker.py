"""Creation of voices from one clip, for programs, and from descriptions."""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import EngineFailed, InvalidInput
from engine.languages import language_tag, language_tags
from engine.voice import BuiltInVoice, clean_name
from storage.errors import NameTaken, VoiceNotFound
from studio.takes.buffer import TakeBuffer
from studio.voices.consents import given_consent
from studio.voices.languages import clean_language

if TYPE_CHECKING:
    from engine.messages import UserMessage
    from storage import VoiceRecord
    from studio.context import AppContext
    from studio.engines.model_manager import ModelManager
    from studio.engines.speech_engine import SpeechEngine

log = logging.getLogger(__name__)

# The sample texts of described voices, by language.
SAMPLE_TEXTS = {
    "de": (
        "Guten Morgen. Der Regen hat aufgehört, und die ersten Vögel singen wieder. "
        "Wollen wir vor dem Frühstück am Fluss entlang spazieren gehen?"
    ),
    "en": (
        "Good morning. The rain has stopped, and the first birds are singing again. "
        "Shall we go for a walk along the river before breakfast?"
    ),
    "es": (
        "Buenos días. Ha dejado de llover y los primeros pájaros vuelven a cantar. "
        "¿Damos un paseo junto al río antes del desayuno?"
    ),
    "fr": (
        "Bonjour. La pluie a cessé et les premiers oiseaux chantent de nouveau. "
        "Et si nous allions nous promener le long de la rivière avant le petit-déjeuner ?"
    ),
    "it": (
        "Buongiorno. Ha smesso di piovere e i primi uccelli sono tornati a cantare. "
        "Facciamo una passeggiata lungo il fiume prima di colazione?"
    ),
    "ja": "おはようございます。雨がやんで、鳥たちがまた歌い始めました。朝ごはんの前に、川沿いを散歩しませんか。",
    "ko": "좋은 아침이에요. 비가 그치고 새들이 다시 노래하기 시작했어요. 아침 식사 전에 강가를 따라 산책할까요?",
    "pt": (
        "Bom dia. A chuva parou e os primeiros pássaros voltaram a cantar. "
        "Vamos passear à beira do rio antes do café da manhã?"
    ),
    "ru": "Доброе утро. Дождь кончился, и первые птицы снова поют. Не прогуляться ли нам вдоль реки до завтрака?",
    "zh": "早上好。雨已经停了，鸟儿又开始唱歌了。早饭前，我们要不要沿着河边散散步？",
}


class SavedVoice(NamedTuple):
    """A saved voice, and notes on its clip and transcript for the user."""

    record: VoiceRecord
    notes: tuple[UserMessage, ...]


class TranscriptNeeded(InvalidInput):
    """The model needs the words of a clip, which were not given and could not be transcribed."""


def sample_language(engine: ModelManager, wanted: str) -> str:
    """Return the language tag for a described voice's sample: the wanted one if the model and `SAMPLE_TEXTS` have it,
    else English, else the model's first.
    """
    languages = engine.info.capabilities.languages
    spoken = [tag for tag in language_tags(languages) if tag in SAMPLE_TEXTS] if languages else ["en"]
    return next((tag for tag in (language_tag(wanted), "en", *spoken) if tag in spoken), "en")


def voice_language(engine: SpeechEngine, chosen: str) -> str:
    """Return the language tag of a new voice: the chosen one, else "en" for an English-only model, else "".

    chosen: as `clean_language` returns it.
    """
    return chosen or ("en" if engine.info.capabilities.english_only else "")


def make_voice(
    app: AppContext,
    name: str,
    clip: bytes,
    transcript: str,
    *,
    owner: str,
    consent: str,
    language: str = "",
    description: str = "",
) -> SavedVoice:
    """Create a voice from a clip and save it. Consent and name are checked first, since encoding takes longer.

    transcript: the words of the clip; if empty, faster-whisper transcribes the clip. Without that package or its
        model, models that can do so clone without a transcript. consent: as for `given_consent`. language: a tag or an
        English name; "" if unknown; an English-only model then takes English.
    Raises NameTaken, UnusableReference, TranscriptNeeded, InvalidInput, OwnerDeleted, and what `given_consent` raises.
    """
    deletion_token = app.storage.deletion_token(owner=owner)
    agreed = given_consent(app.storage, consent, owner=owner)
    require_cloning(app.engine)
    cleaned = checked_name(app, name, owner)
    language = voice_language(app.engine, clean_language(language))
    if not transcript.strip():
        transcript = _transcribe(app, clip, language)
        if not transcript and app.engine.info.capabilities.needs_transcript:
            raise TranscriptNeeded("reference.no_words")
    made = app.engine.encode_voice(
        cleaned, [(clip, transcript)], language=language, description=description, consent=agreed
    )
    return SavedVoice(app.storage.voices.add(made.voice, owner=owner, deletion_token=deletion_token), made.notes)


def _transcribe(app: AppContext, clip: bytes, language: str) -> str:
    """Transcribe a clip; return "" without faster-whisper or its model, which is logged."""
    if not app.recognition.ready:
        return ""
    try:
        return app.recognition.transcribe(clip, language_tag(language))
    except EngineFailed as error:
        log.warning("A clip was not transcribed: %s", error)
        return ""


def speak_sample(app: AppContext, name: str, description: str, *, owner: str, language: str = "en") -> TakeBuffer:
    """Speak the sample of a described voice. The voice's name is checked first.

    language: a key of `SAMPLE_TEXTS`, as returned by `sample_language`.
    Raises NameTaken, InvalidOption for a model that takes no description, and what `speak` raises.
    """
    checked_name(app, name, owner)
    engine, described = app.engine, BuiltInVoice(description=description.strip())
    how, take = replace(engine.info.default_options, language=language), TakeBuffer(engine.info.sample_rate)
    with closing(engine.speak(SAMPLE_TEXTS[language], described, how, owner=owner)) as speech:
        speech.front_end = "page"
        for chunk in speech:
            take.add(chunk)
    return take


def save_described_voice(
    app: AppContext,
    name: str,
    description: str,
    sample: TakeBuffer,
    *,
    owner: str,
    deletion_token: str,
    language: str = "en",
) -> VoiceRecord:
    """Save a described voice with its sample, from which other models clone it.

    sample, language: as in `speak_sample`. deletion_token: from `Storage.deletion_token`.
    Raises NameTaken, InvalidInput, OwnerDeleted.
    """
    reference = sample.encode(), SAMPLE_TEXTS[language]
    made = app.engine.encode_voice(clean_name(name), [reference], language=language, description=description.strip())
    return app.storage.voices.add(made.voice, owner=owner, deletion_token=deletion_token)


def require_cloning(engine: ModelManager) -> None:
    """Raise InvalidInput if the loaded model cannot clone voices."""
    capabilities = engine.info.capabilities
    if not capabilities.clones:
        raise InvalidInput("engine.describes_only" if capabilities.designs_voices else "engine.no_cloning")


def checked_name(app: AppContext, name: str, owner: str, renamed: str = "") -> str:
    """Clean a name, and check that none of the owner's voices has it. Raises NameTaken, InvalidName.

    renamed: id of a voice that may have it.
    """
    cleaned = clean_name(name)
    with suppress(VoiceNotFound):
        found = app.storage.voices.find(cleaned, owner=owner)
        if not found.shared and found.id != renamed:
            raise NameTaken("voices.name_taken", name=found.name)
    return cleaned
