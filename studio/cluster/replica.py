"""One engine of the deployment."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from engine.engine import Engine
from engine.errors import EngineFailed, RepriseError
from engine.options import QUEUE
from engine.request.speech import Speech
from engine.serving.device import limit_gpu_memory
from studio.cluster.autoscaling import BUSY, QUEUED_SECONDS
from studio.cluster.messages import (
    DeploymentSettings,
    EngineProperties,
    QueuePosition,
    ReplicaStatus,
    SpeakRequest,
    SpeechItem,
    voice_key,
)
from studio.engines.arrived_audio import SECONDS_PER_CHARACTER
from studio.startup import exclude_loaded_objects

if TYPE_CHECKING:
    from engine.voice import Voice

Result = TypeVar("Result")

VOICES = 1000  # maximum number of voices that are remembered as prefilled
PLACE_SECONDS = 0.5  # between two checks of the place in the queue
FIRST_AUDIO = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]  # seconds


class EngineReplica:
    """One engine of the deployment. Serve calls its methods on an event loop; the engine works in threads.

    Methods return errors instead of raising them, since a raised error reaches the caller as one of Ray's.
    """

    def __init__(self, settings: DeploymentSettings) -> None:
        import ray
        from ray.serve.metrics import Counter, Gauge, Histogram

        names = ("precision", "graphs", "compiled", "deterministic", "slots")
        given = {name: value for name in names if (value := getattr(settings.engine, name))}
        self._settings = settings
        if settings.gpus and settings.gpus < 1:
            limit_gpu_memory(settings.gpus)
        self._engine = Engine.load(settings.engine.model, settings.engine.device, **given)
        self._threads = ThreadPoolExecutor(self._engine.info.slots + QUEUE + 8, thread_name_prefix="reprise-replica")
        runtime = ray.get_runtime_context()
        self._gpus = tuple(runtime.get_accelerator_ids().get("GPU", ()))
        self._voices: OrderedDict[str, None] = OrderedDict()
        self._queued: dict[int, float] = {}  # estimated seconds of audio by waiting request
        self._failed = False
        self._slots_used = Gauge("reprise_slots_used", "Slots in use.")
        self._waiting = Gauge("reprise_queued_seconds", "Seconds of audio that wait for a slot.")
        self._speeches = Counter("reprise_speeches", "Speeches that were begun.")
        self._continued = Counter("reprise_speeches_continued", "Speeches that another replica had begun.")
        self._seconds = Counter("reprise_audio_seconds", "Seconds of audio that were made.")
        self._reused = Counter("reprise_prefix_reused", "Speeches in a voice that the replica spoke recently.")
        self._first = Histogram("reprise_first_audio_seconds", "Time to the first audio.", boundaries=FIRST_AUDIO)
        exclude_loaded_objects()

    # ---- methods of the engine

    async def properties(self) -> EngineProperties:
        """Return the properties of the engine."""
        return EngineProperties(self._engine.info, self._settings, self._engine.segmentation)

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the engine. Returns its result or its error."""
        return await self._call(lambda: getattr(self._engine, method)(*arguments, **named))

    async def forget(self, voice: Voice) -> RepriseError | None:
        """See `Engine.forget`."""
        self._voices.pop(voice_key([voice]), None)
        return await self._call(lambda: self._engine.forget(voice))

    async def speak(self, request: SpeakRequest, voice_key: str = "") -> AsyncIterator[SpeechItem]:
        """Yield the place in the queue while it waits, then chunks and finished segments, and at last the result."""
        self._speeches.inc()
        if request.spoken:
            self._continued.inc()
        if voice_key:
            if voice_key in self._voices:
                self._reused.inc()
            self._voices[voice_key] = None
            self._voices.move_to_end(voice_key)
            while len(self._voices) > VOICES:
                self._voices.popitem(last=False)
        self._queued[id(request)] = _seconds(request)
        try:
            voices = request.built_in_voice or list(request.voices) or None
            speech = await self._run(
                lambda: self._engine.speak(
                    request.text, voices, request.options, owner=request.owner, spoken=request.spoken
                )
            )
            try:
                async for item in self._items(speech, request):
                    yield item
            finally:
                speech.cancel()  # ends the thread that waits for the next chunk; only that thread may close it
        except RepriseError as error:
            self._failed |= isinstance(error, EngineFailed)
            yield error
        finally:
            self._queued.pop(id(request), None)

    async def _items(self, speech: Speech, request: SpeakRequest) -> AsyncIterator[SpeechItem]:
        reported, position = len(request.spoken), None
        first = True
        while True:
            coming = asyncio.ensure_future(self._run(lambda: next(speech, None)))
            while not (await asyncio.wait([coming], timeout=PLACE_SECONDS))[0]:
                if speech.queue_position is not None and speech.queue_position != position:
                    position = speech.queue_position
                    yield QueuePosition(position)
            chunk = await coming
            for segment in speech.spoken[reported:]:
                yield segment
                reported += 1
            if chunk is None:
                break
            if first:
                self._first.observe(chunk.elapsed)
                self._queued.pop(id(request), None)
                first = False
            if len(chunk.samples):  # Ray's counters refuse 0; chunks with word times have no samples
                self._seconds.inc(len(chunk.samples) / self._engine.info.sample_rate)
            yield chunk
        if speech.result is not None:
            yield speech.result

    async def _call(self, work: Callable[[], Result]) -> Result | RepriseError:
        try:
            return await self._run(work)
        except RepriseError as error:
            self._failed |= isinstance(error, EngineFailed)
            return error

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ---- state and metrics

    async def status(self) -> ReplicaStatus:
        """Return the state of this replica."""
        return ReplicaStatus(
            os.getpid(),
            self._engine.status(),
            tuple(self._voices),
            self._gpus,
        )

    def check_health(self) -> None:
        """Raise if the engine has failed, so that Serve replaces the replica: it seldom recovers from device errors."""
        status = self._engine.status()
        self._slots_used.set(status.speaking)
        self._waiting.set(self._waiting_seconds())
        if self._failed:
            raise RuntimeError("A step of the model has failed.")
        if (failure := self._engine.failure) is not None:  # it has stopped while there were no requests
            raise failure

    def record_routing_stats(self) -> dict[str, Any]:
        """Return stats for the router: the keys of the latest voices, which the prefix cache probably holds."""
        return {"voices": list(self._voices)}

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the metrics for autoscaling."""
        status = self._engine.status()
        return {QUEUED_SECONDS: self._waiting_seconds(), BUSY: (status.speaking + status.waiting) / status.slots}

    def _waiting_seconds(self) -> float:
        return sum(self._queued.values()) if self._engine.status().waiting else 0.0

    def __del__(self) -> None:
        if engine := getattr(self, "_engine", None):
            engine.close()


def _seconds(request: SpeakRequest) -> float:
    texts = [request.text] if isinstance(request.text, str) else [segment.text for segment in request.text]
    spoken = sum(len(segment.result.text) for segment in request.spoken)
    return max(0, sum(map(len, texts)) - spoken) * SECONDS_PER_CHARACTER
