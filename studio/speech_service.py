"""Speech for programs: finds voices by the names that clients use, checks options, and enforces the key's limits."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import InvalidInput, InvalidOption, InvalidText
from engine.languages import language_tag
from engine.text.pauses import split_pauses
from engine.text.ssml import plain_text
from engine.text.tags import is_speakable
from engine.voice import BuiltInVoice
from storage.errors import VoiceNotFound, VoiceProtected
from storage.validation import is_id
from studio.pronunciation import respell_for_owner, respell_growing
from studio.voices.available_voices import BUILT_IN_PREFIX, BuiltInSpeaker, ReadyVoice
from studio.words.written_speech import WrittenSpeech

if TYPE_CHECKING:
    from engine.options import SpeakOptions
    from engine.text import GrowingText
    from storage import VoiceRecord
    from studio.access import Access, Caller
    from studio.context import AppContext
    from studio.engines.measured_speech import MeasuredSpeech
    from studio.engines.speech_engine import SpeechEngine
    from studio.voices.available_voices import ListedVoice

MAX_CHARACTERS = 10_000  # of one request
# Sample voices by OpenAI's voice names, the only ones that many clients offer. The first, the default of most clients,
# is the most intelligible voice.
OPENAI_VOICES = {
    "alloy": "Adam",
    "ash": "Daniel",
    "ballad": "Ben",
    "cedar": "Adam",
    "coral": "Emma",
    "echo": "Daniel",
    "fable": "Ben",
    "marin": "Flora",
    "nova": "Flora",
    "onyx": "Adam",
    "sage": "Clara",
    "shimmer": "Emma",
    "verse": "Daniel",
}


@dataclass(frozen=True)
class VoiceChoice:
    """The voice of a request: a name, or a clip (bytes of a file) and its transcript; without both the model picks one.

    name: of a saved voice or of one of the model's own.
    """

    name: str | None = None
    clip: bytes | None = None
    transcript: str = ""


@dataclass(frozen=True)
class RequestedOptions:
    """The options of a request that a caller may set. None and "" leave them to the model.

    instructions: how to speak; ignored except for models with style tags, speakers that follow instructions, and
    described voices. language: one that the model speaks. word_times: whether chunks have word times; not every model
    provides them. The others are those of `SpeakOptions`.
    """

    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    instructions: str = ""
    language: str = ""
    word_times: bool = False

    def over(self, defaults: SpeakOptions) -> SpeakOptions:
        """Return the options of a model with those that are set here."""
        options = replace(
            defaults, seed=self.seed, language=self.language, style=self.instructions, word_times=self.word_times
        )
        if self.temperature is not None:
            options = replace(options, temperature=self.temperature)
        if self.top_p is not None:
            options = replace(options, top_p=self.top_p)
        return options


NO_OPTIONS = RequestedOptions()


class SpeechService:
    """Generates speech and finds voices for callers. Thread-safe; methods block on the database and the codec."""

    def __init__(self, context: AppContext, access: Access) -> None:
        self._context, self._access = context, access

    def speak(
        self,
        caller: Caller,
        text: str | GrowingText,
        by: VoiceChoice,
        asked: RequestedOptions = NO_OPTIONS,
    ) -> MeasuredSpeech:
        """Start a speech, whose chunks have the text and words as written. text: `extend` continues a growing one.

        Raises what `Engine.speak` raises, VoiceNotFound, LimitReached, InvalidInput.
        """
        engine = self._context.engine
        _check_length(len(text))
        check_language(engine, asked.language)
        options = asked.over(engine.info.default_options)
        ready = self._voice(caller, by, asked.instructions)
        voice = ready.voice if ready else None
        spoken = language_tag(asked.language) or (ready.language if ready else "")
        storage, phones = self._context.storage, engine.info.capabilities.phones
        saved = ready.id if ready and is_id(ready.id or "") else None
        token = storage.deletion_token(owner=caller.owner) if saved else ""
        with self._access.spending(caller, len(text)):
            if isinstance(text, str):
                said = respell_for_owner(storage, plain_text(text), spoken, owner=caller.owner, phones=phones)
                _check_words(said.spoken)
                full_text: str | GrowingText = said.spoken
                texts = [said]
            else:
                respell_growing(storage, text, spoken, owner=caller.owner, phones=phones)
                full_text, texts = text, text.taken
            speech = engine.speak(full_text, voice, options, owner=caller.owner)
        speech.on_refusal = lambda: self._access.refund(caller, len(text))
        speech.voice = ready.id if ready else None
        if saved:
            speech.on_spoken = partial(storage.uses.add, saved, owner=caller.owner, deletion_token=token)
        speech.as_written = WrittenSpeech(texts).restore
        return speech

    def extend(self, caller: Caller, text: GrowingText, piece: str) -> None:
        """Append to a text that is being spoken. Raises InvalidText, InvalidInput, LimitReached."""
        _check_length(len(text) + len(piece))
        with self._access.spending(caller, len(piece)):
            text.append(piece)

    def find_voice(self, caller: Caller, name: str) -> ListedVoice:
        """Find a voice by an alias of the key, its id, its name, or an OpenAI name. Raises VoiceNotFound.

        OpenAI names map to the model's built-in speakers if it has any, else to sample voices. An alias never does, not
        even if its voice is gone.
        """
        if not self._may_be_openai_name(caller, name):
            return self._named_voice(caller, name)
        with suppress(VoiceNotFound):
            return self._named_voice(caller, name)
        voices = self._context.voices
        if own := voices.built_in():
            return own[list(OPENAI_VOICES).index(name.lower()) % len(own)]
        return voices.find(OPENAI_VOICES[name.lower()], owner=caller.owner)

    def delete_voice(self, caller: Caller, name: str) -> VoiceRecord:
        """Move a voice to the trash, found by an alias of the key, its id or its name.

        Raises VoiceNotFound, VoiceProtected.
        """
        record = self._saved_voice(caller, name)
        self._context.trash_voice(record.id, owner=caller.owner)
        return record

    def rename_voice(self, caller: Caller, name: str, new: str) -> VoiceRecord:
        """Rename a voice, found as by `delete_voice`. Raises VoiceNotFound, VoiceProtected, NameTaken, InvalidName."""
        return self._context.storage.voices.rename(self._saved_voice(caller, name).id, new, owner=caller.owner)

    def _named_voice(self, caller: Caller, name: str) -> ListedVoice:
        """Find a voice by an alias of the key, its id or its name. Raises VoiceNotFound."""
        voices, owner = self._context.voices, caller.owner
        if name.lower() in caller.voices:
            return self._aliased_voice(caller, name)
        if is_id(name):
            with suppress(VoiceNotFound):
                return voices.get(name, owner=owner)
        return voices.find(name, owner=owner)

    def _aliased_voice(self, caller: Caller, alias: str) -> ListedVoice:
        """Find the voice that a key calls by an alias. A name is never that of an owner's voice, which has its id.

        Raises VoiceNotFound.
        """
        voices, target = self._context.voices, caller.voices[alias.lower()]
        try:
            return voices.get(target, owner=caller.owner) if is_id(target) else voices.find_shared(target)
        except VoiceNotFound as error:
            raise VoiceNotFound(
                f"The voice that this key calls “{alias}” does not exist, or belongs to another model."
            ) from error

    def _may_be_openai_name(self, caller: Caller, name: str) -> bool:
        return name.lower() in OPENAI_VOICES and name.lower() not in caller.voices

    def _saved_voice(self, caller: Caller, name: str) -> VoiceRecord:
        """Find a voice to change, not by an OpenAI name, which can mean another voice.

        Raises VoiceNotFound; VoiceProtected for one of the model's own.
        """
        record = self._named_voice(caller, name)
        if isinstance(record, BuiltInSpeaker):
            raise VoiceProtected(f"“{record.name}” is a voice of the model itself: it cannot be changed.")
        return record

    def _voice(self, caller: Caller, by: VoiceChoice, instructions: str) -> ReadyVoice | None:
        """Return the voice of a request; None if the model picks one."""
        engine, style = self._context.engine, instructions.strip()
        if by.clip is not None:
            made = engine.encode_voice("reference", [(by.clip, by.transcript)]).voice
            return ReadyVoice(made.name, made.language, made, None)
        if engine.info.capabilities.designs_voices and self._leaves_voice_to_description(caller, by.name):
            return ReadyVoice("", "", BuiltInVoice(description=style), f"{BUILT_IN_PREFIX}described")
        if by.name is None:
            return None
        found = self.find_voice(caller, by.name)
        return self._context.voices.ready(found.id, owner=caller.owner, instructions=style)

    def _leaves_voice_to_description(self, caller: Caller, name: str | None) -> bool:
        """Return whether a request names no voice, or an OpenAI name that is not one of the owner's voices."""
        if name is None:
            return True
        try:
            found = self.find_voice(caller, name)
        except VoiceNotFound:
            return self._may_be_openai_name(caller, name)
        return name.lower() in OPENAI_VOICES and found.shared


def _check_length(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise InvalidInput(f"The text has {characters:,} characters; at most {MAX_CHARACTERS:,} go in one request.")


def _check_words(text: str) -> None:
    """Raise InvalidText as an engine does, since a cluster's checks the text only when it is spoken."""
    if not any(is_speakable(piece) for piece, _ in split_pauses(text)):
        raise InvalidText("text.no_words")


def check_language(engine: SpeechEngine, language: str) -> None:
    """Raise InvalidOption for a language that an English-only model does not speak. `speak` checks other models."""
    if (
        engine.info.capabilities.english_only
        and language.strip().lower() not in ("", "auto")
        and language_tag(language) != "en"
    ):
        raise InvalidOption(f"This model speaks English only, not “{language[:40]}”; leave the language out.")
