"""A recogniser with transcripts set by the test."""

from collections.abc import Callable, Sequence

from engine.audio.transcription import HeardWord


class FakeRecogniser:
    """Transcribes a sound as `words(sound)`. heard: the given languages, one per sound."""

    def __init__(self, words: Callable[[bytes], str], name: str = "fake") -> None:
        self.name, self.ready = name, True
        self.words = words
        self.heard: list[str] = []

    def transcribe(self, sound: bytes, language: str = "") -> str:
        self.heard.append(language)
        return self.words(sound)

    def transcribe_words(self, sound: bytes, language: str = "") -> Sequence[HeardWord]:
        """Return no words."""
        return []
