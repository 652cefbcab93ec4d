"""Mono samples as FFmpeg frames, and FFmpeg filter graphs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import av
import av.filter
import numpy as np
from av.audio.frame import AudioFrame
from numpy.typing import NDArray


def to_frame(samples: NDArray[np.int16], sample_rate: int, start: int = 0) -> AudioFrame:
    """Convert samples [n] to a frame. sample_rate: Hz. start: index of the first sample in its stream."""
    frame = AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None], "s16", "mono")
    frame.sample_rate, frame.pts, frame.time_base = sample_rate, start, Fraction(1, sample_rate)
    return frame


def amplified(frame: AudioFrame, gain: float) -> AudioFrame:
    """Return a mono frame of 16 bits as floats, which may exceed full scale."""
    louder = AudioFrame.from_ndarray(frame.to_ndarray() * np.float32(gain / 32768), "fltp", "mono")
    louder.sample_rate, louder.pts, louder.time_base = frame.sample_rate, frame.pts, frame.time_base
    return louder


class FilterGraph:
    """A chain of filters for a stream of mono frames. filters: name and arguments of each, in FFmpeg's syntax."""

    def __init__(self, sample_rate: int, *filters: tuple[str, str]) -> None:
        graph = av.filter.Graph()
        self._source = graph.add_abuffer(
            sample_rate=sample_rate, format="s16", layout="mono", time_base=Fraction(1, sample_rate)
        )
        self._sink = graph.add("abuffersink")
        graph.link_nodes(self._source, *(graph.add(*each) for each in filters), self._sink)
        graph.configure()
        self._graph = graph  # its nodes do not keep it alive

    def push(self, frame: AudioFrame | None) -> Iterator[AudioFrame]:
        """Filter a frame and iterate over the frames that are ready. None flushes the filters."""
        self._source.push(frame)
        try:
            while True:
                yield cast(AudioFrame, self._sink.pull())
        except (av.BlockingIOError, av.EOFError):
            return
