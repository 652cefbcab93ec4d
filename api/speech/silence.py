"""Silence in place of a text without words.

OpenAI answers such a text with audio, so programs send them: “.” to check a key, and an emoji or “…” as a sentence of a
language model's reply. They take an error for a failure of the server.
"""

from __future__ import annotations

import numpy as np

from engine.outputs import AudioChunk, SpeechResult
from engine.text.pauses import pause_seconds

SHORTEST = 0.1  # seconds: players refuse a file without samples
LONGEST = 60.0  # seconds: silence takes no slot, so the engine's queue does not bound the work of encoding it


def can_be_silence(text: str) -> bool:
    """Return whether silence may take the place of a text without words: it is not empty, and its pauses are short."""
    return bool(text) and pause_seconds(text) <= LONGEST


class Silence:
    """A `ChunkSource` of as many seconds as the text's pauses have, at least `SHORTEST`. voice: it has none."""

    voice: str | None = None
    result: SpeechResult | None = None

    def __init__(self, text: str, sample_rate: int, seed: int | None) -> None:
        """sample_rate: Hz. seed: the one in the response; nothing is drawn from it."""
        self.sample_rate, self.seed = sample_rate, seed or 0
        silence = np.zeros(round(sample_rate * max(SHORTEST, pause_seconds(text))), np.float32)
        self._chunks = AudioChunk(silence, 0, 0, 0.0, 0, 1, text).in_seconds(sample_rate)

    def __next__(self) -> AudioChunk:
        """Return the next second."""
        return next(self._chunks)

    def cancel(self) -> None:
        """End the silence."""
        self._chunks = iter(())

    def close(self) -> None:
        """Do nothing: it holds no slot."""
