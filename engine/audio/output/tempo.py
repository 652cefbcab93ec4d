"""Tempo changes at constant pitch, with FFmpeg's `atempo`."""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from av.audio.frame import AudioFrame
from numpy.typing import NDArray

from engine.audio.output.frames import FilterGraph, to_frame

_TAIL = 0.25  # seconds: the filter holds back less than this at the end


def change_tempo(samples: NDArray[np.int16], sample_rate: int, speed: float) -> NDArray[np.int16]:
    """Change the tempo of mono int16 samples [n]. The result has exactly round(n / speed) samples.

    sample_rate: Hz. speed: 0.25 to 4; 1 returns the samples themselves.
    """
    if speed == 1:
        return samples
    tempo = Tempo(sample_rate, speed)
    return _joined(chain(tempo.push(to_frame(samples, sample_rate)), tempo.finish()) if len(samples) else ())


class Tempo:
    """Changes the tempo of a stream of mono frames of 16 bits: n samples become exactly round(n / speed)."""

    def __init__(self, sample_rate: int, speed: float) -> None:
        # One `atempo` filter goes down to half the speed.
        steps = [0.5, speed * 2] if speed < 0.5 else [speed]
        self._graph = FilterGraph(sample_rate, *(("atempo", f"{step:.6f}") for step in steps))
        self._sample_rate, self._speed = sample_rate, speed
        self._taken, self._made = 0, 0  # samples
        self._held = np.zeros(0, np.int16)  # a single sample: at more than twice the speed the filter fails for it

    def push(self, frame: AudioFrame) -> Iterator[AudioFrame]:
        """Change a frame and iterate over the frames that are ready."""
        samples = np.concatenate([self._held, frame.to_ndarray()[0]])
        self._held = samples if len(samples) == 1 else samples[:0]
        if len(samples) > 1:
            for changed in self._filter(samples):
                self._made += changed.samples
                yield changed

    def finish(self) -> Iterator[AudioFrame]:
        """Iterate over the rest, which is pushed out by silence and cut to the exact length."""
        length = round((self._taken + len(self._held)) / self._speed)
        silence = np.zeros(round(_TAIL * self._sample_rate * max(1.0, self._speed)), np.int16)
        for changed in chain(self._filter(np.concatenate([self._held, silence])), self._graph.push(None)):
            if left := max(0, length - self._made):
                kept = changed.to_ndarray()[0][:left]
                yield to_frame(kept, self._sample_rate, self._made)
                self._made += len(kept)

    def _filter(self, samples: NDArray[np.int16]) -> Iterator[AudioFrame]:
        frame = to_frame(samples, self._sample_rate, self._taken)
        self._taken += len(samples)
        return self._graph.push(frame)


class ReplaceableTempo:
    """Changes the tempo of a stream of int16 samples whose end can be replaced, as that of `AudioChunk`s.

    length: samples returned so far that are not replaced. The last ones are held back until `finish`.
    """

    def __init__(self, sample_rate: int, speed: float) -> None:
        self._sample_rate, self._speed = sample_rate, speed
        self.length = 0
        self._begin(0)

    def _begin(self, start: int) -> None:
        """Begin a new filter at this sample of the input, and at the end of the output."""
        self._tempo = Tempo(self._sample_rate, self._speed)
        self._first, self._first_changed = start, self.length
        self._given: list[NDArray[np.int16]] = []  # to this filter
        self._end = start  # of the input

    def change(self, samples: NDArray[np.int16], start: int) -> tuple[NDArray[np.int16], int]:
        """Replace the input from sample `start` on. Returns the samples that are ready, and where they start."""
        changed, begin = samples[:0], self.length
        if start < self._end:
            changed, begin = self._go_back(start)
        if len(samples):
            self._given.append(samples)
            self._end += len(samples)
            ready = _joined(self._tempo.push(to_frame(samples, self._sample_rate)))
            changed = np.concatenate([changed, ready])
        self.length = begin + len(changed)
        return changed, begin

    def finish(self) -> NDArray[np.int16]:
        """Return the last samples."""
        rest = _joined(self._tempo.finish())
        self.length += len(rest)
        return rest

    def _go_back(self, start: int) -> tuple[NDArray[np.int16], int]:
        """Begin again at `start`. Returns the samples before it that the filter held back, and where they start."""
        end, made = round(start / self._speed), self.length
        missing = np.zeros(0, np.int16)
        if end > made:
            kept = np.concatenate(self._given)[: start - self._first]
            missing = change_tempo(kept, self._sample_rate, self._speed)[made - self._first_changed :]
        begin = min(made, end)
        self.length = begin + len(missing)
        self._begin(start)
        return missing, begin


def _joined(frames: Iterable[AudioFrame]) -> NDArray[np.int16]:
    return np.concatenate([np.zeros(0, np.int16), *(frame.to_ndarray()[0] for frame in frames)])
