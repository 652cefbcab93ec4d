"""What a recogniser hears of a take, compared with its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.languages import language_tag
from storage.repositories.script.hearings import Hearing
from studio.proof.compare import compare
from studio.takes.written_words import WrittenWords

if TYPE_CHECKING:
    from storage.repositories.generations import TimedWord
    from studio.recognition import Recogniser


@dataclass(frozen=True)
class Listener:
    """A recogniser that is told a language, "" where it is not known. Its methods raise what the recogniser raises."""

    recogniser: Recogniser
    language: str

    def hear(self, text: str, sound: bytes) -> Hearing:
        """What is heard of a text in a file of sound."""
        heard = self.recogniser.hear(sound, language_tag(self.language))
        found = compare(text, heard)
        return Hearing(heard, found.word_error, found.marks, self.recogniser.name)

    def word_times(self, text: str, sound: bytes) -> list[TimedWord]:
        """When the words of a text are spoken."""
        return WrittenWords(text).follow(self.recogniser.hear_words(sound, language_tag(self.language)))
