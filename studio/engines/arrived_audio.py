"""The audio of a speech that has arrived from another process."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from engine.outputs import SpeechResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.outputs import AudioChunk, SpokenSegment, StopReason

SECONDS_PER_CHARACTER = 0.07  # of audio, to estimate that of a text


class ArrivedAudio:
    """Counts the chunks of one speech, from its request on. A segment that is spoken again counts once.

    end: end of the audio in samples of the take, with pauses. frames: by segment. first_audio: seconds from the request
    to the first chunk; None before it.
    """

    def __init__(self) -> None:
        self.end = 0
        self.frames: Counter[int] = Counter()
        self.first_audio: float | None = None
        self._pauses: set[tuple[int, int]] = set()  # start and end of each chunk of silence before `end`
        self._requested_at = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the request."""
        return time.perf_counter() - self._requested_at

    def add(self, chunk: AudioChunk) -> bool:
        """Count a chunk. Returns whether it is new.

        A request that continues a speech begins with the pause after the spoken segments, which may have arrived.
        """
        span = chunk.start, chunk.start + len(chunk.samples)
        is_pause = not chunk.frames and len(chunk.samples) > 0
        if is_pause and span in self._pauses:
            return False
        if self.first_audio is None:
            self.first_audio = self.elapsed
        if chunk.start < self.end:  # a segment is spoken again
            self.frames = Counter({at: frames for at, frames in self.frames.items() if at < chunk.segment})
            self._pauses = {(start, end) for start, end in self._pauses if end <= chunk.start}
        if is_pause:
            self._pauses.add(span)
        self.end = span[1]
        self.frames[chunk.segment] += chunk.frames
        return True

    def result(
        self, stop_reason: StopReason, seed: int, sample_rate: int, spoken: Iterable[SpokenSegment]
    ) -> SpeechResult:
        """Return the result of the speech if it ends now. sample_rate: Hz. spoken: its segments."""
        return SpeechResult(
            stop_reason,
            self.frames.total(),
            self.end / sample_rate,
            self.elapsed,
            self.first_audio,
            seed,
            tuple(segment.result for segment in spoken),
        )
