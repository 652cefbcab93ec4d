"""The client of the cluster: an engine whose replicas generate the speech."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineBusy, EngineClosed, EngineFailed, RepriseError
from engine.files.bounded import MAX_CLIP_FILE_BYTES, read_regular
from engine.info import EngineStatus
from engine.options import QUEUE, SpeakOptions
from engine.text import GrowingText
from engine.voice import BuiltInVoice, Consent, EncodedVoice, Voice, voices_of
from studio.cluster.failures import ATTEMPTS, RETRY_SECONDS, full_cluster, lost_replica
from studio.cluster.messages import EngineProperties, ReplicaStatus, SpeakRequest, voice_key
from studio.cluster.speech import ClusterRequest, ClusterSpeech

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from ray.serve.handle import DeploymentHandle

log = logging.getLogger(__name__)

STATUS_SECONDS = 1.0  # for which a status is cached
STATUS_TIMEOUT = 5.0  # seconds
WATCH_SECONDS = 1.0  # between two checks of the cluster's head
MISSES = 3  # failed checks in a row after which the cluster counts as lost


class ClusterEngine:
    """The interface of `Engine` over the replicas of a deployment. Thread-safe.

    A speech whose replica dies continues on another one, from the end of the last segment whose audio has arrived in
    full, with the same seed and so the same codes. The listener hears a pause. Audio of the next segment may be sent
    again; the `start` of the next chunk then goes back to where that segment begins.
    """

    def __init__(
        self, handle: DeploymentHandle, head: tuple[str, int], on_close: Callable[[bool], None] = lambda _lost: None
    ) -> None:
        """handle: of the deployment of `EngineReplica`. head: address of the cluster's control store (GCS).

        on_close: called by `close` with whether the cluster is lost. Raises EngineFailed if no replica answers.
        """
        self._handle, self._head, self._on_close = handle, head, on_close
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reprise-cluster", daemon=True)
        self._thread.start()
        self._speeches: weakref.WeakSet[ClusterSpeech] = weakref.WeakSet()
        self._lost = self._closed = False
        self._over = threading.Event()
        self._status: tuple[float, EngineStatus] | None = None
        self._watcher = threading.Thread(target=self._watch, name="reprise-cluster-watch", daemon=True)
        self._watcher.start()
        properties: EngineProperties = self._ask("properties")
        self.info, self._segmentation = properties.info, properties.segmentation

    def replicas(self) -> list[ReplicaStatus]:
        """Return the state of each replica. Raises EngineFailed."""
        self._check_open()
        try:
            found = self._broadcast("status")
        except Exception as error:
            raise EngineFailed("cluster.no_replica") from error
        return [each for each in found if isinstance(each, ReplicaStatus)]

    def _broadcast(self, method: str, *arguments: Any) -> list[Any]:
        """Call all replicas, in a new thread: Ray refuses the call in a thread whose event loop is running."""
        with ThreadPoolExecutor(1) as thread:
            call = thread.submit(lambda: self._handle.broadcast(method, *arguments).results(timeout_s=STATUS_TIMEOUT))
            return list(call.result())

    def status(self) -> EngineStatus:
        """Return the total over all replicas; the last known one if none answers. Raises EngineFailed without one."""
        if self._status is None or time.monotonic() - self._status[0] > STATUS_SECONDS:
            try:
                found = [each.status for each in self.replicas()]
            except (EngineFailed, EngineClosed):
                found = []
            if found:
                self._status = time.monotonic(), _sum(found)
        if self._status is None:
            raise EngineFailed("cluster.no_replica")
        return self._status[1]

    # ---- methods of the engine

    def encode_voice(
        self,
        name: str,
        references: Sequence[tuple[bytes | str | Path, str]],
        *,
        language: str = "en",
        description: str = "",
        consent: Consent | None = None,
    ) -> EncodedVoice:
        """See `Engine.encode_voice`."""
        clips = [
            (clip if isinstance(clip, bytes) else read_regular(Path(clip), MAX_CLIP_FILE_BYTES), transcript)
            for clip, transcript in references
        ]
        named = {"language": language, "description": description, "consent": consent}
        made: EncodedVoice = self._ask("call", "encode_voice", name, clips, **named)
        return made

    def reencode(self, voice: Voice) -> Voice:
        """See `Engine.reencode`."""
        made: Voice = self._ask("call", "reencode", voice)
        return made

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """See `Engine.reconstruct`."""
        samples: NDArray[np.float32] = self._ask("call", "reconstruct", self._with_own_codes(voice))
        return samples

    def speak(
        self,
        text: str | GrowingText,
        voice: Voice | Sequence[Voice] | BuiltInVoice | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> ClusterSpeech:
        """See `Engine.speak`. Errors of the text and the voice are raised when the speech is iterated.

        Each part of a growing text is sent as a request that continues the previous one.
        """
        self._check_open()
        growing = text if isinstance(text, GrowingText) else None
        message = SpeakRequest(
            "" if isinstance(text, GrowingText) else text,
            tuple(self._with_own_codes(each) for each in voices_of(voice)),
            (options or self.info.default_options).seeded(),
            owner,
            built_in_voice=voice if isinstance(voice, BuiltInVoice) else None,
        )
        speech = ClusterSpeech(ClusterRequest(self.stream, self.info, message, growing), self.start)
        self._speeches.add(speech)
        return speech

    def growing_text(self) -> GrowingText:
        """See `Engine.growing_text`."""
        return GrowingText(self._segmentation, self._check_speakable)

    def prepare(self, voice: Voice) -> None:
        """Do nothing: the replica that will speak is chosen when it is asked."""

    def forget(self, voice: Voice) -> None:
        """Call `Engine.forget` on all replicas. Failures are logged."""
        try:
            answers = self._broadcast("forget", voice)
        except Exception as error:
            answers = [error]
        for answer in answers:
            if isinstance(answer, Exception):  # raised here, or returned by a replica
                log.warning("A deleted voice may still be cached by a replica: %s", type(answer).__name__)

    def close(self) -> None:
        """End all speeches, and call `on_close`."""
        if self._closed:
            return
        self._closed = True
        for speech in list(self._speeches):
            speech.cancel()
        self._over.set()
        self._watcher.join()
        self._on_close(self._lost)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run a coroutine on the engine's event loop; return a function that cancels it, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).cancel

    def stream(self, request: SpeakRequest) -> Any:
        """Send a request to a replica; return Serve's asynchronous generator of its items."""
        call = self._handle.options(stream=True).speak
        return call.remote(request, voice_key=voice_key(request.voices))

    @property
    def failure(self) -> RepriseError | None:
        """The error of a closed engine or a lost cluster; None otherwise."""
        if self._closed:
            return EngineClosed()
        return EngineFailed("cluster.lost") if self._lost else None

    def _check_open(self) -> None:
        if (failure := self.failure) is not None:
            raise failure

    def _check_speakable(self, text: str) -> None:
        self._ask("call", "check_speakable", text)

    def _with_own_codes(self, voice: Voice) -> Voice:
        """Return the voice with codes of this codec, and without its clips unless replicas use them."""
        if voice.codec_fingerprint != self.info.codec_fingerprint:
            voice = self.reencode(voice)
        if self.info.capabilities.uses_clips:
            return voice
        return replace(voice, references=tuple(replace(each, clip=b"") for each in voice.references))

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of any replica. Raises the error that it returns, EngineFailed, EngineClosed."""
        self._check_open()
        asked = asyncio.run_coroutine_threadsafe(self._call_replica(method, arguments, named), self._loop)
        while True:
            try:
                answer = asked.result(WATCH_SECONDS)
                break
            except TimeoutError:
                if (failure := self.failure) is not None:
                    asked.cancel()
                    raise failure from None
            except CancelledError:
                raise EngineClosed() from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _call_replica(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return await getattr(self._handle, method).remote(*arguments, **named)
            except full_cluster():
                return EngineBusy("engine.busy", limit=QUEUE)
            except lost_replica() as error:
                log.warning("A replica was lost during %s: %s", method, type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS * attempt)
        return EngineFailed("cluster.no_replica")

    def _watch(self) -> None:
        """Check the head periodically, since Ray's own calls wait for it forever."""
        missed = 0
        while not self._over.wait(WATCH_SECONDS):
            try:
                socket.create_connection(self._head, WATCH_SECONDS).close()
                missed = 0
            except OSError:
                missed += 1
            lost = missed >= MISSES
            if lost and not self._lost:
                log.error("The cluster's head at %s:%d does not answer.", *self._head)
                self._lost = True
                for speech in list(self._speeches):
                    speech.fail(EngineFailed("cluster.lost"))
            self._lost = lost


def _sum(found: Sequence[EngineStatus]) -> EngineStatus:
    first, memory = found[0], [each.device_memory for each in found if each.device_memory is not None]
    return replace(
        first,
        speaking=sum(each.speaking for each in found),
        waiting=sum(each.waiting for each in found),
        slots=sum(each.slots for each in found),
        prefix_cache_bytes=(
            sum(each.prefix_cache_bytes[0] for each in found),
            sum(each.prefix_cache_bytes[1] for each in found),
        ),
        device_memory=sum(memory) if memory else None,
    )
