"""Tempo changes at constant pitch, with FFmpeg's `atempo`."""

from collections.abc import Iterable

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
    length = round(len(samples) / speed)
    padded = np.concatenate([samples, np.zeros(round(_TAIL * sample_rate * max(1.0, speed)), np.int16)])
    tempo = Tempo(sample_rate, speed)
    frames = [*tempo.push(to_frame(padded, sample_rate)), *tempo.finish()]
    made = np.concatenate([each.to_ndarray()[0] for each in frames])
    changed = np.zeros(length, np.int16)
    changed[: len(made)] = made[:length]
    return changed


class Tempo:
    """Changes the tempo of a stream of frames."""

    def __init__(self, sample_rate: int, speed: float) -> None:
        # One `atempo` filter goes down to half the speed.
        steps = [0.5, speed * 2] if speed < 0.5 else [speed]
        self._graph = FilterGraph(sample_rate, *(("atempo", f"{step:.6f}") for step in steps))

    def push(self, frame: AudioFrame) -> Iterable[AudioFrame]:
        return self._graph.push(frame)

    def finish(self) -> Iterable[AudioFrame]:
        return self._graph.push(None)
