"""Adaptations of decoded speech to the speakers of clips, for codecs with a postfilter. Recent ones are cached."""

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.codec.postfilter import Postfilter, SpeakerAdaptation
from engine.errors import RepriseError, UnusableReference
from engine.serving.clips.clip_encoder import SingleFlight
from engine.serving.codec_worker import CodecWorker

log = logging.getLogger(__name__)

_CACHE_BYTES = 32 << 20
_ENTRY_BYTES = 256  # at least, also of a clip that nothing is learned from


@dataclass(frozen=True)
class _Learned:
    adaptation: SpeakerAdaptation | None


class SpeakerAdaptations:
    """Learns from clips and their codes, once for each while it is cached. Thread-safe."""

    def __init__(self, worker: CodecWorker, postfilter: Postfilter) -> None:
        self._worker, self._postfilter = worker, postfilter
        self._cache: ByteLRU[bytes, _Learned] = ByteLRU(_CACHE_BYTES)
        self._flights: SingleFlight[bytes, _Learned] = SingleFlight()
        self._ahead = ThreadPoolExecutor(1, "reprise-adapting")

    def learned(
        self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]
    ) -> SpeakerAdaptation | None:
        """Return the adaptation to the speaker of a clip's file with these codes `[K, T]`.

        None if the file is damaged or says too little. decode: returns its samples `[n]`, at the codec's rate. Blocks
        until the codes are decoded; must not be called on the worker's thread. Raises EngineClosed, EngineFailed.
        """
        key = _key(clip, codes)
        return self._flights.do(key, lambda: self._learn(key, clip, codes, decode)).adaptation

    def learn_ahead(self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]) -> None:
        """Learn in a thread from a clip that may be used soon. Further clips wait for it."""
        if self._cache.get(_key(clip, codes)) is not None:
            return
        self._ahead.submit(self._learn_quietly, clip, codes, decode)

    def forget(self, clip: bytes, codes: NDArray[np.int64]) -> None:
        """Drop what was learned from a clip. What is being learned is not cached."""
        self._cache.pop(_key(clip, codes))

    def _learn_quietly(self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]) -> None:
        try:
            self.learned(clip, codes, decode)
        except RepriseError as error:  # it is raised again on use, except that the engine was closed
            log.debug("Nothing was learned ahead: %s", error)

    def _learn(self, key: bytes, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]) -> _Learned:
        # Looked up here and not before the flight, because another flight may have ended in between.
        if (kept := self._cache.get(key)) is not None:
            return kept
        drops = self._cache.drops
        found = _Learned(self._adaptation(clip, codes, decode))
        self._cache.put(key, found, _ENTRY_BYTES + (found.adaptation.nbytes if found.adaptation else 0), drops=drops)
        return found

    def _adaptation(
        self, clip: bytes, codes: NDArray[np.int64], decode: Callable[[bytes], Tensor]
    ) -> SpeakerAdaptation | None:
        try:
            samples = decode(clip).float().cpu()
        except UnusableReference:
            return None
        copy = self._worker.decode(codes[:, : self._postfilter.frames_learned], filtered=False)
        with torch.inference_mode():
            return self._postfilter.adaptation(samples, torch.from_numpy(copy))


def _key(clip: bytes, codes: NDArray[np.int64]) -> bytes:
    digest = hashlib.sha256(codes.tobytes())
    digest.update(clip)
    return digest.digest()


__all__ = ["SpeakerAdaptation", "SpeakerAdaptations"]
