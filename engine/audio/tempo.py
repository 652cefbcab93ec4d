"""Speaking faster or slower at the same pitch, by FFmpeg's `atempo`."""

from fractions import Fraction
from typing import cast

import av
import av.filter
import numpy as np
from av.audio.frame import AudioFrame
from numpy.typing import NDArray

_TAIL = 0.25  # seconds: the filter keeps less than this back at the end


def change_tempo(samples: NDArray[np.int16], sample_rate: int, speed: float) -> NDArray[np.int16]:
    """Return int16 samples [n], mono, at another speed: exactly round(n / speed) samples.

    sample_rate: Hz. speed: 0.25 to 4; 1 returns the samples themselves.
    """
    if speed == 1:
        return samples
    length = tempo_length(len(samples), speed)
    padded = np.concatenate([samples, np.zeros(round(_TAIL * sample_rate * max(1.0, speed)), np.int16)])
    frame = AudioFrame.from_ndarray(padded[None], "s16", "mono")
    frame.sample_rate, frame.pts, frame.time_base = sample_rate, 0, Fraction(1, sample_rate)
    tempo = Tempo(sample_rate, speed)
    made = np.concatenate([each.to_ndarray()[0] for each in [*tempo.push(frame), *tempo.finish()]])
    changed = np.zeros(length, np.int16)
    changed[: len(made)] = made[:length]
    return changed


def tempo_length(samples: int, speed: float) -> int:
    """The number of samples that `change_tempo` makes of this many."""
    return round(samples / speed)


class Tempo:
    """Changes the speed of a stream of frames."""

    def __init__(self, sample_rate: int, speed: float) -> None:
        graph = av.filter.Graph()
        self._source = graph.add_abuffer(
            sample_rate=sample_rate, format="s16", layout="mono", time_base=Fraction(1, sample_rate)
        )
        # One filter goes down to half the speed.
        steps = [0.5, speed * 2] if speed < 0.5 else [speed]
        filters = [graph.add("atempo", f"{step:.6f}") for step in steps]
        self._sink = graph.add("abuffersink")
        graph.link_nodes(self._source, *filters, self._sink)
        graph.configure()
        self._graph = graph

    def push(self, frame: AudioFrame) -> list[AudioFrame]:
        self._source.push(frame)
        return self._pull()

    def finish(self) -> list[AudioFrame]:
        self._source.push(None)
        return self._pull()

    def _pull(self) -> list[AudioFrame]:
        frames: list[AudioFrame] = []
        try:
            while True:
                frames.append(cast(AudioFrame, self._sink.pull()))
        except (av.BlockingIOError, av.EOFError):
            return frames
