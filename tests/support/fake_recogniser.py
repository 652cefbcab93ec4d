"""A recogniser that hears what a test tells it to."""

from collections.abc import Callable, Sequence

from engine.audio.transcription import HeardWord


class FakeRecogniser:
    """Hears `words(sound)`. heard: the languages it was told, one for each sound."""

    def __init__(self, words: Callable[[bytes], str], name: str = "fake") -> None:
        self.name, self.ready = name, True
        self.words = words
        self.heard: list[str] = []

    def hear(self, sound: bytes, language: str = "") -> str:
        self.heard.append(language)
        return self.words(sound)

    def hear_words(self, sound: bytes, language: str = "") -> Sequence[HeardWord]:
        """Hears no word at any time."""
        return []
