"""Texts whose words are respelled before they are spoken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Respelling:
    """A text as it is spoken and as it was written. parts: pairs of these, in order; equal where nothing changes."""

    parts: tuple[tuple[str, str], ...]

    @classmethod
    def unchanged(cls, text: str) -> Respelling:
        """Return a text that is spoken as written."""
        return cls(((text, text),))

    @property
    def spoken(self) -> str:
        return "".join(spoken for spoken, _ in self.parts)

    @property
    def written(self) -> str:
        return "".join(written for _, written in self.parts)
