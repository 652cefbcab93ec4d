"""The audio of a take while it is generated: chunks in, 16-bit samples out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.audio import AudioFormat, encode_audio, to_int16
from engine.audio.output.tempo import ReplaceableTempo
from studio.words.written_words import WrittenWords

if TYPE_CHECKING:
    from engine.outputs import AudioChunk
    from storage.repositories.takes import TimedWord
    from studio.provenance.provenance import Provenance
    from studio.provenance.watermark import Watermark


class TakeBuffer:
    """The audio generated so far. A chunk of a retried segment starts earlier and replaces what follows its start.

    words: the words of the text whose times are known so far. length: samples.
    """

    def __init__(
        self, sample_rate: int, watermark: Watermark | None = None, *, text: str = "", speed: float = 1.0
    ) -> None:
        """watermark: for encoded files; the samples of chunks are not marked. text: as written. speed: preserves the
        pitch; the end of the take is then held back until `finish`.
        """
        self.sample_rate, self._watermark = sample_rate, watermark
        self._speed, self._tempo = speed, ReplaceableTempo(sample_rate, speed) if speed != 1 else None
        self.words: list[TimedWord] = []
        self._written = WrittenWords(text)
        self._chunks: list[NDArray[np.int16]] = []
        self.length = 0

    @property
    def seconds(self) -> float:
        return self.length / self.sample_rate

    @property
    def spoken_seconds(self) -> float:
        """Seconds of the same audio at speed 1."""
        return self.seconds * self._speed

    def add(self, chunk: AudioChunk) -> NDArray[np.int16]:
        """Append a chunk; return the next samples, as they will be in the file."""
        samples, start = to_int16(chunk.samples), chunk.start
        if self._tempo:
            samples, start = self._tempo.change(samples, start)
        if start < self.length:
            self._truncate(start)
        for word in self._written.follow(chunk.words):
            self.words.append(word._replace(start=word.start / self._speed, end=word.end / self._speed))
        return self._append(samples)

    def finish(self) -> NDArray[np.int16]:
        """Append what was held back, after the last chunk; return it. Nothing is left for another call."""
        tempo, self._tempo = self._tempo, None
        return self._append(tempo.finish() if tempo else np.zeros(0, np.int16))

    def _append(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        self._chunks.append(samples)
        self.length += len(samples)
        return samples

    def samples(self) -> NDArray[np.int16]:
        """Return all samples, int16 `[n]`."""
        return np.concatenate(self._chunks) if self._chunks else np.zeros(0, np.int16)

    def encode(self, format: AudioFormat = "wav", provenance: Provenance | None = None) -> bytes:
        """Encode the take as a file; wav and flac have 16 bits. provenance: for the file's tags.

        Raises InvalidOption for an unknown format.
        """
        samples: NDArray[np.floating] = self.samples() / np.float32(32768)
        if self._watermark:
            samples = self._watermark.mark(samples, self.sample_rate)
        return encode_audio(samples, self.sample_rate, format, provenance.tags() if provenance else None)

    def _truncate(self, length: int) -> None:
        while self._chunks and self.length - len(self._chunks[-1]) >= length:
            self.length -= len(self._chunks.pop())
        if self.length > length:
            self._chunks[-1] = self._chunks[-1][: length - self.length]
            self.length = length
