"""A speech over replicas: the caller's handle, and the request, which continues when a replica is lost."""

from __future__ import annotations

import asyncio
import logging
import queue
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np

from engine.errors import EngineBusy, EngineFailed, RepriseError
from engine.info import EngineInfo
from engine.options import QUEUE
from engine.outputs import AudioChunk, SpeechResult, SpokenSegment, StopReason
from engine.text import GrowingText, Segment, check_speakers
from studio.cluster.failures import ATTEMPTS, RETRY_SECONDS, full_cluster, lost_replica
from studio.cluster.messages import QueuePosition, SpeakRequest
from studio.engines.arrived_audio import ArrivedAudio
from studio.tracebacks import format_traceback

log = logging.getLogger(__name__)


class ClusterSpeech:
    """The interface of `engine.request.speech.Speech` over replicas.

    As there, the request does not refer to it, so that a speech without other references is freed, and then cancelled.
    """

    def __init__(
        self, request: ClusterRequest, start: Callable[[Coroutine[Any, Any, None]], Callable[[], object]]
    ) -> None:
        """start: runs a coroutine, and returns a function that cancels it."""
        self.result: SpeechResult | None = None
        self._request = request
        self._ended = False
        self._stop = start(request.run())
        weakref.finalize(self, self._stop)

    @property
    def seed(self) -> int:
        return self._request.seed

    @property
    def queue_position(self) -> int | None:
        return self._request.queue_position

    def __iter__(self) -> ClusterSpeech:
        return self

    def __next__(self) -> AudioChunk:
        if self._ended:
            raise StopIteration
        item = self._request.items.get()
        self._request.queue_position = None
        if isinstance(item, AudioChunk):
            return item
        self._ended = True
        if isinstance(item, Exception):
            raise item
        self.result = item
        raise StopIteration

    def cancel(self) -> None:
        """Stop, from any thread. The audio so far stays; the result says `cancelled`."""
        self._stop()
        self._request.items.put(self._request.result("cancelled"))

    def fail(self, error: RepriseError) -> None:
        """End with an error, from any thread."""
        self._stop()
        self._request.items.put(error)

    def close(self) -> None:
        """Cancel, and free the request's memory."""
        self.cancel()
        self._ended = True


class ClusterRequest:
    """The request of a speech, sent again to another replica when one is lost.

    items: what has arrived for the reader; a result or an error is the last one.
    """

    def __init__(
        self,
        stream: Callable[[SpeakRequest], Any],
        info: EngineInfo,
        message: SpeakRequest,
        growing: GrowingText | None = None,
    ) -> None:
        """stream: sends a message to a replica, and returns an asynchronous generator of `SpeechItem`.

        info: of the replicas. message: with a seed. growing: the text; None for that of the message.
        """
        assert message.options.seed is not None, "the engine has chosen one"
        self.seed = message.options.seed
        self.queue_position: int | None = None
        self.items: queue.SimpleQueue[AudioChunk | SpeechResult | Exception] = queue.SimpleQueue()
        self._stream, self._info, self._message, self._growing = stream, info, message, growing
        self._segments: list[Segment] = []  # of the growing text
        self._spoken: list[SpokenSegment] = []  # including those whose audio has not fully arrived
        self._arrived = ArrivedAudio()

    async def run(self) -> None:
        try:
            speaking = self._speak() if self._growing is None else self._speak_growing(self._growing)
            self.items.put(await speaking)
        except Exception as error:
            log.error("A speech failed.\n%s", format_traceback(error))
            self.items.put(EngineFailed("cluster.no_replica") if not isinstance(error, RepriseError) else error)

    async def _speak_growing(self, text: GrowingText) -> SpeechResult | Exception:
        """Speak each part of the text as it arrives. Returns the result of the last one, or the first error."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        text.changed = lambda: loop.call_soon_threadsafe(changed.set)
        speakers = sum(len(voice.references) for voice in self._message.voices)
        result: SpeechResult | None = None
        while True:
            changed.clear()
            taken = text.take()
            check_speakers(taken, speakers)
            self._segments += taken
            if len(self._spoken) < len(self._segments):
                self._message = replace(self._message, text=tuple(self._segments))
                answer = await self._speak()
                if isinstance(answer, Exception):
                    return answer
                result = answer
            elif not text.over:
                await changed.wait()
            elif result is None:
                return self.result("end")
            else:
                self._send_silence(text.final_pause)
                return replace(result, seconds=result.seconds + text.final_pause)

    def _send_silence(self, seconds: float) -> None:
        """Send silence after the last segment, in chunks of at most a second."""
        count, rate, text = len(self._segments), self._info.sample_rate, self._segments[-1].text
        silence = np.zeros(round(seconds * rate), np.float32)
        for chunk in AudioChunk(silence, self._arrived.end, 0, 0.0, count - 1, count, text).in_seconds(rate):
            self._chunk(chunk)

    async def _speak(self) -> SpeechResult | Exception:
        """Speak to the end of the text, on another replica when one is lost. Returns the result or the error."""
        attempt = 0
        while True:
            self._spoken = self._arrived_segments()
            message = replace(self._message, spoken=tuple(self._spoken))
            before = len(self._spoken)
            items = None
            try:
                items = self._stream(message)
                async for item in items:
                    if isinstance(item, AudioChunk):
                        self._chunk(item)
                    elif isinstance(item, SpokenSegment):
                        self._spoken.append(item)
                    elif isinstance(item, QueuePosition):
                        self.queue_position = item.position
                    elif isinstance(item, SpeechResult):
                        return replace(item, elapsed=self._arrived.elapsed, first_audio=self._arrived.first_audio)
                    elif isinstance(item, Exception):
                        return item
                return EngineFailed("cluster.no_replica")
            except full_cluster():
                return EngineBusy("engine.busy", limit=QUEUE)
            except lost_replica() as error:
                attempt = 1 if len(self._arrived_segments()) > before else attempt + 1
                log.warning("A replica was lost while it spoke: %s", type(error).__name__)
                if attempt >= ATTEMPTS:
                    return EngineFailed("cluster.no_replica")
                await asyncio.sleep(RETRY_SECONDS * (attempt - 1))
            except asyncio.CancelledError:
                if items is not None:
                    items.cancel()
                raise

    def _chunk(self, chunk: AudioChunk) -> None:
        if not self._arrived.add(chunk):
            return
        segments = max(chunk.segments, len(self._segments))
        self.items.put(replace(chunk, elapsed=self._arrived.elapsed, segments=segments))

    def _arrived_segments(self) -> list[SpokenSegment]:
        """Return the first segments, up to one whose audio has not fully arrived."""
        whole = [self._arrived.frames[at] >= segment.result.frames for at, segment in enumerate(self._spoken)]
        return self._spoken[: whole.index(False) if False in whole else None]

    def result(self, stop_reason: StopReason) -> SpeechResult:
        """Return the result of the speech if it ends now."""
        return self._arrived.result(stop_reason, self.seed, self._info.sample_rate, self._spoken)
