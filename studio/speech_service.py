"""Speech for programs: a voice by any name that clients give it, checks that a page makes in its form, and the limits
of the caller's key.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import InvalidInput, InvalidOption, VoiceNotFound
from engine.voice import OwnVoice, Voice
from storage.validation import is_id
from studio.pronunciation import as_said, follow

if TYPE_CHECKING:
    from engine.text import GrowingText
    from storage import VoiceRecord
    from studio.access import Access, Caller
    from studio.context import AppContext
    from studio.model_manager import MeasuredSpeech

MAX_CHARACTERS = 10_000  # of one request
MAX_STYLE = 80  # characters of a style tag
# Sample voices by the names of OpenAI's, which many clients offer and no others.
COMMON_VOICES = {
    "alloy": "Clara",
    "ash": "Adam",
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
_ENGLISH = re.compile(r"(?i)|auto|english|en([-_][a-z0-9]+)*")
_NO_STYLE = re.compile(r"[\[\]\s]+")


@dataclass(frozen=True)
class SpokenBy:
    """The voice of a request: the name of a saved one or of one of the model's own; or a clip (a file's bytes) and its
    transcript; or neither, and the model picks one.
    """

    name: str | None = None
    clip: bytes | None = None
    transcript: str = ""


class SpeechService:
    """Makes speech and finds voices for callers. Thread-safe; blocks for the database and the codec."""

    def __init__(self, context: AppContext, access: Access) -> None:
        self._context, self._access = context, access

    def speak(
        self,
        caller: Caller,
        text: str | GrowingText,
        by: SpokenBy,
        *,
        seed: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        instructions: str = "",
        language: str = "",
        word_times: bool = False,
    ) -> MeasuredSpeech:
        """Begin to speak.

        text: a growing one is continued by `extend`. temperature, top_p: the model's own by default. instructions: how
        to speak, for models with style tags, named speakers that follow instructions, or described voices; without
        effect on others. language: has to be one that the model speaks.
        word_times: whether chunks tell when words are spoken; refused for a model that does not know.

        Raises what `Engine.speak` raises, VoiceNotFound, LimitReached, InvalidInput.
        """
        engine = self._context.engine
        _check_length(len(text))
        self.check_language(language)
        options = replace(engine.default_options, seed=seed, language=language, word_times=word_times)
        if temperature is not None:
            options = replace(options, temperature=temperature)
        if top_p is not None:
            options = replace(options, top_p=top_p)
        own = self._own_voice(by, instructions)
        voice, id = (own, f"model:{own.speaker or 'described'}") if own else self._voice(caller, by)
        style, storage = self.style_tag(instructions), self._context.storage
        spoken = voice.language if isinstance(voice, Voice) else language
        if isinstance(text, str):
            self._access.spend(caller, len(text))
            said: str | GrowingText = style + as_said(storage, text, spoken, owner=caller.owner)
        else:
            follow(storage, text, spoken, owner=caller.owner)
            text.append(style)
            said = text
        speech = engine.speak(said, voice, options, owner=caller.owner)
        speech.voice = id
        return speech

    def extend(self, caller: Caller, text: GrowingText, piece: str) -> None:
        """Continue a text that is being spoken. Raises InvalidText, InvalidInput, LimitReached."""
        _check_length(len(text) + len(piece))
        self._access.spend(caller, len(piece))
        text.append(piece)

    def find_voice(self, caller: Caller, name: str) -> VoiceRecord:
        """The voice of a name, an id, or one of OpenAI's names. Raises VoiceNotFound."""
        voices, owner = self._context.storage.voices, caller.owner
        alias = caller.voices.get(name.lower())
        if alias is not None:
            return voices.find(alias, owner=owner)
        if is_id(name):
            with suppress(VoiceNotFound):
                return voices.get(name, owner=owner)
        try:
            return voices.find(name, owner=owner)
        except VoiceNotFound:
            if (sample := COMMON_VOICES.get(name.lower())) is not None:
                return voices.find(sample, owner=owner)
            raise

    def delete_voice(self, caller: Caller, name: str) -> VoiceRecord:
        """Move a voice to the trash, by a name as for `find_voice`. Raises VoiceNotFound, VoiceProtected."""
        record = self.find_voice(caller, name)
        self._context.trash_voice(record.id, owner=caller.owner)
        return record

    def style_tag(self, instructions: str) -> str:
        """A style tag for the start of a text; "" without instructions, or where the model has no style tags."""
        style = _NO_STYLE.sub(" ", instructions).strip()
        if not style or not self._context.engine.style_tags:
            return ""
        if len(style) > MAX_STYLE:
            style = style[: MAX_STYLE + 1].rpartition(" ")[0] or style[:MAX_STYLE]
        return f"[{style}] "

    def check_language(self, language: str) -> None:
        """Raises InvalidOption for a language that the model does not speak."""
        if self._context.engine.english_only and not _ENGLISH.fullmatch(language.strip()):
            raise InvalidOption(f"This model speaks English only, not “{language[:40]}”; leave the language out.")

    def _own_voice(self, by: SpokenBy, instructions: str) -> OwnVoice | None:
        """A voice of the model's own: a speaker by name, or the one that the instructions describe."""
        able, name = self._context.engine.abilities, (by.name or "").strip().lower()
        if by.clip is not None or (name and name not in able.speakers):
            return None
        follows = able.describes if not name else able.instructs
        if not name and not follows:
            return None
        return OwnVoice(name, instructions.strip() if follows else "")

    def _voice(self, caller: Caller, by: SpokenBy) -> tuple[Voice | None, str | None]:
        """The voice, and its id where it is saved."""
        engine = self._context.engine
        if by.clip is not None:
            return engine.encode_voice("reference", [(by.clip, by.transcript)]).voice, None
        if by.name is None:
            return None, None
        record = self.find_voice(caller, by.name)
        voices = self._context.storage.voices
        return voices.ready(record.id, engine.codec_fingerprint, engine.reencode, owner=caller.owner), record.id


def _check_length(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise InvalidInput(f"The text has {characters:,} characters; at most {MAX_CHARACTERS:,} go in one request.")
