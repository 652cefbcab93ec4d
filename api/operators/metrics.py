"""Prometheus metrics of the engine, its speeches and the API, without any text, name or address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine import __version__

if TYPE_CHECKING:
    from studio.engines.model_manager import ModelManager


class Metrics:
    """The metrics of one application."""

    def __init__(self, engine: ModelManager) -> None:
        registry = self._registry = CollectorRegistry()
        registry.register(_EngineCollector(engine))
        registry.register(engine.metrics)
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "reprise_requests",
            "Requests to the API, by operation and status.",
            ["operation", "status"],
            registry=registry,
        )

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
