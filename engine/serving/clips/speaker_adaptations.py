"""Adaptations of decoded speech to the speakers of clips, for codecs with a postfilter. Recent ones are cached."""

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.codec.postfilter import Postfilter, SpeakerAdaptation
from engine.errors import EngineClosed, UnusableReference
from engine.serving.clips.clip_encoder import SingleFlight
from engine.serving.codec_worker import CodecWorker

log = logging.getLogger(__name__)

_CACHE_BYTES = 64 << 20  # some 400 clips
_AT_ONCE = 2  # clips that are learned from at once, so that the audio of other speech is not held up
_AHEAD = 4  # clips that wait to be learned from ahead
_ENTRY_BYTES = 256  # at least, also of a clip that nothing is learned from


@dataclass(frozen=True)
class _Learned:
    adaptation: SpeakerAdaptation | None

    @property
    def nbytes(self) -> int:
        return _ENTRY_BYTES + (self.adaptation.nbytes if self.adaptation else 0)


class SpeakerAdaptations:
    """Learns from clips and their codes, once for each while it is cached. Thread-safe."""

    def __init__(self, worker: CodecWorker, postfilter: Postfilter) -> None:
        self._worker, self._postfilter = worker, postfilter
        self._cache: ByteLRU[bytes, _Learned] = ByteLRU(_CACHE_BYTES)
        self._flights: SingleFlight[bytes, _Learned] = SingleFlight()
        self._running = threading.Semaphore(_AT_ONCE)
        self._ahead = ThreadPoolExecutor(1, "reprise-adapting")
        self._waiting: OrderedDict[bytes, Callable[[], object]] = OrderedDict()  # to be learned from ahead, by keys
        self._learning = b""  # the key that is being learned from ahead
        self._waiting_lock = threading.Lock()
        self._closed = False

    @property
    def drops(self) -> int:
        """How often adaptations have been forgotten."""
        return self._cache.drops

    def adaptation_for(
        self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor], *, drops: int | None = None
    ) -> SpeakerAdaptation | None:
        """Return the adaptation to the speaker of a clip's file with these codes `[K, T]`.

        None if the file is damaged or says too little. decode: returns its samples `[n]`, at the codec's rate. drops:
        `self.drops` when it was requested; it is not cached if it may have been forgotten since. Blocks
        until the codes are decoded; must not be called on the worker's thread. Raises EngineClosed, EngineFailed.
        """
        key = _key(clip, codes)

        def learned() -> _Learned:
            work = partial(self._learn, clip, codes, decode)
            return self._cache.computed(key, work, lambda found: found.nbytes, drops=drops)

        # Looked up in the flight and not before it, because another flight may have ended in between.
        return self._flights.do(key, learned).adaptation

    def learn_ahead(self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]) -> None:
        """Learn in a thread from a clip that may be used soon: from the last one first, and from few in all."""
        key = _key(clip, codes)
        with self._waiting_lock:
            known = key == self._learning or key in self._waiting or self._cache.get(key) is not None
            if self._closed or known:
                return
            self._waiting[key] = partial(self.adaptation_for, clip, codes, decode)
            if len(self._waiting) > _AHEAD:
                self._waiting.popitem(last=False)  # the task queued for it learns from another clip
            else:
                self._ahead.submit(self._learn_next)

    def forget(self, clip: bytes, codes: NDArray[np.int64]) -> None:
        """Drop what was learned from a clip. What is being learned is not cached."""
        key = _key(clip, codes)
        with self._waiting_lock:
            self._waiting.pop(key, None)
        self._cache.pop(key)

    def close(self) -> None:
        """Learn from no further clips ahead."""
        with self._waiting_lock:
            self._closed = True
            self._waiting.clear()
            self._ahead.shutdown(wait=False)

    def _learn_next(self) -> None:
        with self._waiting_lock:
            if not self._waiting:
                return
            self._learning, work = self._waiting.popitem()
        try:
            work()
        except EngineClosed:
            pass
        except Exception:
            log.warning("Nothing was learned ahead from a clip; it is tried again on use.", exc_info=True)
        self._learning = b""

    def _learn(self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]) -> _Learned:
        try:
            samples = decode(clip).float().cpu()
        except UnusableReference:
            return _Learned(None)
        with self._running, torch.inference_mode():
            copy = self._worker.decode(codes[:, : self._postfilter.frames_learned], filtered=False)
            return _Learned(self._postfilter.adaptation(samples, torch.from_numpy(copy)))


def _key(clip: bytes, codes: NDArray[np.int64]) -> bytes:
    digest = hashlib.sha256(codes.tobytes())
    digest.update(clip)
    return digest.digest()


__all__ = ["SpeakerAdaptation", "SpeakerAdaptations"]
