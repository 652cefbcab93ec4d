"""A take while it is spoken: chunks in, 16-bit samples out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.audio import AudioFormat, encode_audio, to_int16

if TYPE_CHECKING:
    from engine.request import AudioChunk


class Take:
    """What was spoken so far. A retried segment starts earlier, and replaces what came from there."""

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self._pieces: list[NDArray[np.int16]] = []
        self.length = 0  # samples

    @property
    def seconds(self) -> float:
        return self.length / self.sample_rate

    def add(self, chunk: AudioChunk) -> NDArray[np.int16]:
        """Takes a chunk in, and returns its samples as they will be in the file."""
        if chunk.start < self.length:
            self._cut(chunk.start)
        samples = to_int16(chunk.samples)
        self._pieces.append(samples)
        self.length += len(samples)
        return samples

    def samples(self) -> NDArray[np.int16]:
        """All of it, int16 [n]."""
        return np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int16)

    def encode(self, format: AudioFormat = "wav") -> bytes:
        """The take as a file; wav and flac have 16 bits. Raises InvalidOption for an unknown format."""
        return encode_audio(self.samples() / np.float32(32768), self.sample_rate, format)

    def _cut(self, length: int) -> None:
        while self._pieces and self.length - len(self._pieces[-1]) >= length:
            self.length -= len(self._pieces.pop())
        if self.length > length:
            self._pieces[-1] = self._pieces[-1][: length - self.length]
            self.length = length
