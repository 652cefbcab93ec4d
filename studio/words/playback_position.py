"""Tracking of the words that a listener has heard at a given time, for conversations with interruptions.

The segment at that time is known exactly. Within it, words are placed by the model's word times if there are any.
Otherwise they are placed by estimated speaking time: pauses are skipped, and each word gets its share of the
segment's sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.text import speaking_time
from engine.text.sentences import word_ends

if TYPE_CHECKING:
    from engine.outputs import AudioChunk, WordTime

STEP = 0.01  # seconds; the resolution of silence detection
SILENT = 0.01  # root mean square
_MARKS = " .,;:!?…\"'()—–-"


def step_samples(rate: int) -> int:
    """Return the number of samples per step at `rate` Hz."""
    return max(1, round(STEP * rate))


def sounding(samples: NDArray[np.float32], rate: int) -> NDArray[np.bool_]:
    """Return for each whole step of samples at `rate` Hz whether it has sound."""
    size = step_samples(rate)
    steps = samples[: len(samples) // size * size].reshape(-1, size)
    loud: NDArray[np.bool_] = np.sqrt(np.mean(np.square(steps), axis=1)) > SILENT
    return loud


@dataclass(frozen=True)
class PlaybackPosition:
    """A listener's position in a speech. heard: the words so far. unheard: the other words of the segments so far."""

    heard: str
    unheard: str


@dataclass
class _Segment:
    """A segment in the stream. stream_start: seconds in the stream. take_start: seconds in the take.

    sounding: whether each step has sound. rest: samples of the last, incomplete step. complete: whether it has ended.
    """

    index: int
    text: str
    stream_start: float
    take_start: float
    sounding: list[NDArray[np.bool_]] = field(default_factory=list)
    rest: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    seconds: float = 0.0
    complete: bool = False

    def add(self, samples: NDArray[np.float32], rate: int) -> None:
        """Append samples at `rate` Hz."""
        self.seconds += len(samples) / rate
        whole = np.append(self.rest, samples)
        self.sounding.append(sounding(whole, rate))
        self.rest = whole[len(self.sounding[-1]) * step_samples(rate) :]


class PlayedWords:
    """Tracks the words of a stream of chunks. A segment that is spoken again starts at the stream's current end."""

    def __init__(self, sample_rate: int, speed: float = 1.0) -> None:
        """sample_rate: of the chunks, in Hz. speed: playback speed."""
        self._rate, self._speed = sample_rate, speed
        self._segments: list[_Segment] = []
        self._words: list[WordTime] = []
        self._end = 0  # of the last chunk, in samples of the take

    @property
    def seconds(self) -> float:
        """Length of the stream at its playback speed."""
        return sum(segment.seconds for segment in self._segments) / self._speed

    def add(self, chunk: AudioChunk) -> bool:
        """Add a chunk of the stream. Returns whether a segment begins with it."""
        retried = chunk.start < self._end
        self._end = chunk.start + len(chunk.samples)
        begins = not self._segments or retried or self._segments[-1].index != chunk.segment
        if begins:
            if self._segments:
                self._segments[-1].complete = True
            start = sum(segment.seconds for segment in self._segments)
            self._segments.append(_Segment(chunk.segment, chunk.text, start, chunk.start / self._rate))
        self._segments[-1].add(chunk.samples, self._rate)
        self._words += chunk.words
        return begins

    def finish(self) -> None:
        """Mark the stream as complete."""
        if self._segments:
            self._segments[-1].complete = True

    def until(self, seconds: float) -> PlaybackPosition:
        """Return the position after the first `seconds` of playback."""
        moment = seconds * self._speed
        heard: list[str] = []
        unheard: list[str] = []
        for segment in self._last_attempts():
            end = self._words_end(segment, moment - segment.stream_start)
            heard.append(segment.text[:end])
            unheard.append(segment.text[end:])
        return PlaybackPosition(*(" ".join(" ".join(parts).split()) for parts in (heard, unheard)))

    def _words_end(self, segment: _Segment, seconds: float) -> int:
        """Return the end, in characters, of the words heard within the first `seconds` of a segment."""
        if seconds <= 0:
            return 0
        if segment.complete and seconds >= segment.seconds:
            return len(segment.text)
        if words := [word for word in self._words if word.segment == segment.index]:
            heard = [word for word in words if (word.start + word.end) / 2 - segment.take_start <= seconds]
            return heard[-1].offset + len(heard[-1].text) if heard else 0
        return _estimated_end(segment, seconds)

    def _last_attempts(self) -> Iterator[_Segment]:
        yield from {segment.index: segment for segment in self._segments}.values()


def _estimated_end(segment: _Segment, seconds: float) -> int:
    """Estimate the end of the words heard within the first `seconds` of a segment from their speaking times."""
    sounding = np.concatenate(segment.sounding)
    heard = float(sounding[: round(seconds / STEP)].sum()) * STEP
    ends = word_ends(segment.text, (0, len(segment.text)))
    times = [speaking_time(segment.text[start:end].strip(_MARKS)) for start, end in pairwise([0, *ends])]
    total = float(sounding.sum()) * STEP if segment.complete else max(sum(times), float(sounding.sum()) * STEP)
    found, spoken = 0, 0.0
    for end, time in zip(ends, times, strict=True):
        if heard < (spoken + time / 2) * total / (sum(times) or 1.0):  # a word counts once half of it is heard
            break
        found, spoken = end, spoken + time
    return found
