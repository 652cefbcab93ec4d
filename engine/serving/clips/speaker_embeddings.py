"""Speaker embeddings of clips, for models that have a speaker encoder. Recent ones are cached."""

import hashlib
import threading
from collections.abc import Callable

from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.families.family import SpeakerEncoder

_CACHE_BYTES = 4 << 20


class SpeakerEmbeddings:
    """Embeds clips, each once while it is cached. Thread-safe.

    load: loads the speaker encoder, or returns None for a model without one; called on first use and
        again after `release`.
    """

    def __init__(self, load: Callable[[], SpeakerEncoder | None]) -> None:
        self._load = load
        self._encoder: SpeakerEncoder | None = None
        self._loaded = False
        self._lock = threading.Lock()  # one clip at a time: they share one device
        self._cache: ByteLRU[bytes, Tensor] = ByteLRU(_CACHE_BYTES)

    def embed(self, clip: bytes, decode: Callable[[bytes], Tensor]) -> Tensor | None:
        """Embed a clip's file → `[D]` on the CPU; None for a model without speaker encoder.

        decode: returns the file's samples `[n]`.
        """
        key, drops = hashlib.sha256(clip).digest(), self._cache.drops
        with self._lock:
            if (kept := self._cache.get(key)) is not None:
                return kept
            if not self._loaded:
                self._encoder, self._loaded = self._load(), True
            if self._encoder is None:
                return None
            embedding = self._encoder.embed(decode(clip)).float().cpu()
            self._cache.put(key, embedding, embedding.nbytes, drops=drops)
            return embedding

    def forget(self, clip: bytes) -> None:
        """Drop the embedding of a clip's file. Clips being embedded are not cached."""
        self._cache.pop(hashlib.sha256(clip).digest())

    def release(self) -> None:
        """Free the speaker encoder, after the clip being embedded if any. It is loaded again on next use."""
        with self._lock:
            self._encoder, self._loaded = None, False
