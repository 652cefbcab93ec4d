"""Transcription of takes, and comparison with their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.languages import language_tag
from storage.repositories.scripts.hearings import Hearing
from studio.proof.compare import compare
from studio.words.written_words import WrittenWords

if TYPE_CHECKING:
    from storage.repositories.takes import TimedWord
    from studio.recognition import Recogniser


@dataclass(frozen=True)
class TakeChecker:
    """A check of takes against their texts, by a recogniser. language: "" if unknown.

    Methods raise what the recogniser raises.
    """

    recogniser: Recogniser
    language: str

    def check(self, text: str, sound: bytes) -> Hearing:
        """Transcribe an audio file, and compare the transcript with its text."""
        transcript = self.recogniser.transcribe(sound, language_tag(self.language))
        found = compare(text, transcript, self.language)
        return Hearing(transcript, found.word_error, found.marks, self.recogniser.name)

    def word_times(self, text: str, sound: bytes) -> list[TimedWord]:
        """Return when the words of a text are spoken in an audio file."""
        return WrittenWords(text).follow(self.recogniser.transcribe_words(sound, language_tag(self.language)))
