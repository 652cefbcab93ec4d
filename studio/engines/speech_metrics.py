"""Prometheus metrics of speeches by front end, without any text, name or address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

FrontEnd = Literal["page", "script", "api", "live"]

_FIRST_AUDIO = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds


@dataclass
class Usage:
    """Usage of a speech. seconds: of its audio, as it is sent. first_audio: seconds until the first speech; None before
    it, and for silence.
    """

    characters: int
    frames: int = 0
    seconds: float = 0.0
    first_audio: float | None = None


class SpeechMetrics(Collector):
    """Counts of speeches by front end: takes of the page, cards of scripts, requests and live sessions of the API."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, what: str) -> Counter:
            return Counter(f"reprise_{name}", what, ["front_end"], registry=registry)

        self._speeches = counter("speeches", "Speeches that were begun.")
        self._cancelled = counter("speeches_cancelled", "Speeches that were stopped, or whose client left.")
        self._failed = counter("speeches_failed", "Speeches that ended with an error.")
        self._characters = counter("characters", "Characters of texts that were spoken.")
        self._frames = counter("frames", "Frames of speech that were sent.")
        self._seconds = counter("audio_seconds", "Seconds of speech that were sent.")
        self._first = Histogram(
            "reprise_first_audio_seconds",
            "Time to the first audio of a speech, with its wait for a slot.",
            ["front_end"],
            buckets=_FIRST_AUDIO,
            registry=registry,
        )
        counts = (self._speeches, self._cancelled, self._failed, self._characters, self._frames, self._seconds)
        for front_end in get_args(FrontEnd):  # so that each begins at 0
            for metric in (*counts, self._first):
                metric.labels(front_end)

    def count(self, front_end: FrontEnd, usage: Usage, *, gone: bool, failed: bool) -> None:
        """Count a finished speech. gone: whether it was stopped, or its client disconnected. failed: whether it ended
        with an error. Not for finalizers, which may run while a counter is locked.
        """
        self._speeches.labels(front_end).inc()
        self._cancelled.labels(front_end).inc(gone)
        self._failed.labels(front_end).inc(failed)
        self._characters.labels(front_end).inc(usage.characters)
        self._frames.labels(front_end).inc(usage.frames)
        self._seconds.labels(front_end).inc(usage.seconds)
        if usage.first_audio is not None:
            self._first.labels(front_end).observe(usage.first_audio)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._registry.collect()
