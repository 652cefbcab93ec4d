"""A recogniser that hears what a test tells it to."""

from collections.abc import Callable


class FakeRecogniser:
    """Hears `words(sound)`. heard: the languages it was told, one for each sound."""

    def __init__(self, words: Callable[[bytes], str], name: str = "fake") -> None:
        self.name, self.ready = name, True
        self.words = words
        self.heard: list[str] = []

    def hear(self, sound: bytes, language: str = "") -> str:
        self.heard.append(language)
        return self.words(sound)
