"""Prometheus metrics of the engine and the API, without any text, name or address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine import __version__

if TYPE_CHECKING:
    from api.speech.stream import Usage
    from studio.engines.model_manager import ModelManager

_FIRST_AUDIO = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds


class Metrics:
    """The metrics of one application."""

    def __init__(self, engine: ModelManager) -> None:
        registry = self._registry = CollectorRegistry()
        registry.register(_EngineCollector(engine))
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "reprise_requests",
            "Requests to the API, by operation and status.",
            ["operation", "status"],
            registry=registry,
        )
        self._speeches = Counter("reprise_speeches", "Speeches of the API that were begun.", registry=registry)
        self._cancelled = Counter(
            "reprise_speeches_cancelled", "Speeches of the API whose client left before the end.", registry=registry
        )
        self._failed = Counter(
            "reprise_speeches_failed", "Speeches of the API that ended with an error.", registry=registry
        )
        self._characters = Counter("reprise_characters", "Characters of texts that the API spoke.", registry=registry)
        self._frames = Counter("reprise_frames", "Frames of speech that the API sent.", registry=registry)
        self._seconds = Counter("reprise_audio_seconds", "Seconds of speech that the API sent.", registry=registry)
        self._first = Histogram(
            "reprise_first_audio_seconds",
            "Time to the first audio of a speech of the API, with its wait for a slot.",
            buckets=_FIRST_AUDIO,
            registry=registry,
        )

    def count(self, usage: Usage, *, gone: bool, failed: bool) -> None:
        """Count a finished speech. gone: whether its client disconnected. failed: whether it ended with an error."""
        self._speeches.inc()
        self._cancelled.inc(gone)
        self._failed.inc(failed)
        self._characters.inc(usage.characters)
        self._frames.inc(usage.frames)
        self._seconds.inc(usage.seconds)
        if usage.first_audio is not None:
            self._first.observe(usage.first_audio)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class MetricsMiddleware:
    """Middleware that counts requests by operation, never by a path chosen by a client."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(_operation(scope), message["status"]).inc()
            await send(message)

        await self._app(scope, receive, counted)


class _EngineCollector(Collector):
    """The engine's state at the time of collection."""

    def __init__(self, engine: ModelManager) -> None:
        self._engine, self._started = engine, time.time()

    def collect(self) -> Iterator[Metric]:
        status = self._engine.status()
        yield InfoMetricFamily("reprise_build", "The program.", {"version": __version__})
        yield GaugeMetricFamily("reprise_slots", "Speeches that can be made at once.", status.slots)
        yield GaugeMetricFamily("reprise_slots_used", "Slots in use.", status.speaking)
        yield GaugeMetricFamily("reprise_queue", "Speeches that wait for a slot.", status.waiting)
        yield GaugeMetricFamily("reprise_started_seconds", "When the server started, since 1970.", self._started)
        yield GaugeMetricFamily(
            "reprise_prefix_bytes", "Memory of the cache of voices' prompts.", sum(status.prefix_cache_bytes)
        )
        if status.device_memory is not None:
            yield GaugeMetricFamily("reprise_device_bytes", "Memory of the GPU in use.", status.device_memory)


def _operation(scope: Scope) -> str:
    """Return the name of the endpoint function; "none" for a request without one."""
    return getattr(scope.get("endpoint"), "__name__", "none")
