"""What a request yields: chunks of audio, and the outcome of each segment and of the whole."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

StopReason = Literal["end", "short", "length", "cancelled"]


@dataclass(frozen=True)
class WordTime:
    """A word as written, and when it is spoken.

    start, end: seconds in the take. segment: index of its segment. offset: index of its first character there.
    """

    text: str
    start: float
    end: float
    segment: int
    offset: int


@dataclass(frozen=True, eq=False)
class AudioChunk:
    """A chunk of the take.

    samples: float32 `[n]` in [-1, 1], mono, at the engine's sample rate.
    start: sample offset in the take, normally the end of the previous chunk. If it is smaller, a segment is spoken
        again, or its first attempt is delivered once more because the second one was worse: the chunk replaces all
        earlier audio from `start` on.
    frames: codec frames in this chunk. elapsed: seconds since the request.
    segment, segments: 0-based index of the text's segment, and the number of segments so far. text: that segment.
    queued: seconds from the request to its first slot; 0 before the first audio.
    words: of a segment, with `SpeakOptions.word_times`; they follow its audio in a chunk without samples. Such a chunk
        also takes back the audio of a segment that is spoken again without any.

    A pause in the text is one or more chunks of silence without frames, of at most a second each.
    """

    samples: NDArray[np.float32]
    start: int
    frames: int
    elapsed: float
    segment: int
    segments: int
    text: str
    queued: float = 0.0
    words: tuple[WordTime, ...] = ()

    def in_seconds(self, sample_rate: int) -> "Iterator[AudioChunk]":
        """Split a pause into chunks of at most a second each."""
        for at in range(0, len(self.samples), sample_rate):
            yield replace(self, samples=self.samples[at : at + sample_rate], start=self.start + at)


@dataclass(frozen=True)
class SegmentResult:
    """Outcome of one segment. attempts: 1, or 2 when it was spoken again."""

    text: str
    stop_reason: StopReason
    frames: int
    attempts: int


@dataclass(frozen=True)
class SpokenSegment:
    """A spoken segment, from which another engine can continue. codes: int64 `[K, T]`."""

    result: SegmentResult
    codes: NDArray[np.int64]


@dataclass(frozen=True)
class FirstAudioTimings:
    """Stages of the time to the first audio, in seconds; their sum is `SpeechResult.first_audio`.

    queue: waiting for a slot, including preparation of text, prompt and a voice that has not spoken yet. prefill: of
    the prompt. frames: generating the first chunk. decode: decoding its audio. reused: how many of the prompt's
    `positions` were cached.
    """

    queue: float
    prefill: float
    frames: float
    decode: float
    reused: int
    positions: int


@dataclass(frozen=True)
class SpeechResult:
    """Outcome of a request. seconds: of audio. first_audio, elapsed: seconds since the request.

    stop_reason: `end` (everything was spoken), `short` (a segment ended too soon, so some of its words are missing),
    `length` (a segment looped or did not end within its budget, and was cut there) or `cancelled`.
    underruns, stall_seconds: how often, and for how many seconds in total, uninterrupted playback from the first chunk
    on runs out of audio.
    """

    stop_reason: StopReason
    frames: int
    seconds: float
    elapsed: float
    first_audio: float | None
    seed: int
    segments: tuple[SegmentResult, ...]
    underruns: int = 0
    stall_seconds: float = 0.0
    first_audio_timings: FirstAudioTimings | None = None

    @property
    def real_time_factor(self) -> float:
        """Seconds per second of audio, from the first slot on; below 1 is faster than real time. 0 for no audio."""
        queued = self.first_audio_timings.queue if self.first_audio_timings else 0.0
        return (self.elapsed - queued) / self.seconds if self.seconds else 0.0
