"""The positions of a take's audio: chunks, pauses and words."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from engine.outputs import AudioChunk, FirstAudioTimings, WordTime
from engine.serving.codec_worker import Samples
from engine.serving.turn import AudioDecoded, Turn
from engine.text import Segment


class Timeline:
    """Places the audio of the turns and the pauses between them in the take.

    Each pause is given once: a segment that is spoken again still starts after the pause before it.

    first_audio: seconds from the request to the first audio, and their stages; None before it.
    """

    def __init__(self, segments: list[Segment], sample_rate: int, frame_length: int, spoken: int) -> None:
        """segments: a list that may grow. spoken: how many of them are spoken already; their pauses count as given,
        except the one after the last.
        """
        self.first_audio: tuple[float, FirstAudioTimings] | None = None
        self._segments, self._rate, self._frame_length = segments, sample_rate, frame_length
        self._begun: set[int] = set()  # segments whose pause before is given, of those not spoken already
        self._given = self._pauses_before(spoken - 1) if spoken else 0  # samples of pauses so far
        self._requested_at = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the request."""
        return time.perf_counter() - self._requested_at

    def seconds(self, frames: int) -> float:
        """Return the length of a take of so many frames with the pauses so far."""
        return (frames * self._frame_length + self._given) / self._rate

    def chunk(self, turn: Turn, audio: AudioDecoded, words: tuple[WordTime, ...] = ()) -> AudioChunk:
        """Return the next audio of a turn as a chunk, and count it as delivered."""
        elapsed = self.elapsed
        if self.first_audio is None:
            self.first_audio = elapsed, self._timings(turn, elapsed)
        start = (turn.start + turn.delivered) * self._frame_length + self._given
        turn.delivered += audio.frames
        return replace(self._chunk(turn.segment, start, audio.samples, elapsed), frames=audio.frames, words=words)

    def pause_before(self, segment: int, at: int) -> Iterator[AudioChunk]:
        """Yield the pause before a segment whose audio is about to be yielded, the first time. at: as in `pause`."""
        if segment not in self._begun:
            self._begun.add(segment)
            yield from self.pause(segment, self._segments[segment].silence_before, at)

    def pause_after(self, segment: int, at: int) -> Iterator[AudioChunk]:
        """Yield the pause after a segment whose audio is complete. at: as in `pause`."""
        return self.pause(segment, self._segments[segment].silence_after, at)

    def pause(self, segment: int, seconds: float, at: int) -> Iterator[AudioChunk]:
        """Yield a pause next to a segment. at: frames of the take before it."""
        start, samples = at * self._frame_length + self._given, round(seconds * self._rate)
        self._given += samples
        for chunk in self._chunk(segment, start, np.zeros(samples, np.float32), 0.0).in_seconds(self._rate):
            yield replace(chunk, elapsed=self.elapsed)

    def word_times(self, turn: Turn) -> tuple[WordTime, ...]:
        """Return when the words of an aligned turn are spoken."""
        before, rate = self._pauses_before(turn.segment) / self._rate, self._rate / self._frame_length

        def seconds(frame: int) -> float:
            return before + (turn.start + frame) / rate

        return tuple(
            WordTime(word.text, seconds(word.start), seconds(word.end), turn.segment, word.offset)
            for word in turn.words
        )

    def _pauses_before(self, segment: int) -> int:
        """Return the samples of all pauses before a segment's audio, given or not."""
        earlier = sum(
            round(each.silence_before * self._rate) + round(each.silence_after * self._rate)
            for each in self._segments[:segment]
        )
        return earlier + round(self._segments[segment].silence_before * self._rate)

    def _chunk(self, segment: int, start: int, samples: Samples, elapsed: float) -> AudioChunk:
        """Return a chunk without frames."""
        return AudioChunk(
            samples=samples,
            start=start,
            frames=0,
            elapsed=elapsed,
            segment=segment,
            segments=len(self._segments),
            text=self._segments[segment].text,
            queued=self.first_audio[1].queue if self.first_audio else 0.0,
        )

    def _timings(self, turn: Turn, elapsed: float) -> FirstAudioTimings:
        return FirstAudioTimings(
            queue=turn.started_at - self._requested_at,
            prefill=turn.ready_at - turn.started_at,
            frames=turn.first_chunk_at - turn.ready_at,
            decode=self._requested_at + elapsed - turn.first_chunk_at,
            reused=turn.reused or 0,
            positions=turn.prompt.columns.shape[1],
        )
