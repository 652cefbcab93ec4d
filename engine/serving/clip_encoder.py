"""Codes of clips: each clip is encoded once, however many ask for it at the same time, and kept for a while."""

import hashlib
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.codec import CodecEncoder, whole_frames
from engine.serving.byte_lru import ByteLRU

# A clip goes through the encoder in pieces of about this length, so that memory does not grow with it.
ENCODE_SECONDS = 2.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Work that is done once for all who want it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[K, Future[V]] = {}

    def do(self, key: K, work: Callable[[], V]) -> V:
        """What `work` returns or raises, or what it does for the caller that is already at work on `key`.

        Nothing is remembered afterwards: the next call works anew.
        """
        with self._lock:
            under_way = self._flights.get(key)
            flight = under_way or self._flights.setdefault(key, Future())
        try:
            if under_way is None:
                self._fly(key, flight, work)
            return flight.result()
        finally:
            # The traceback of an error holds this frame: no circle, or what failed keeps its memory for long.
            del flight, under_way

    def _fly(self, key: K, flight: Future[V], work: Callable[[], V]) -> None:
        try:
            flight.set_result(work())
        except BaseException as error:  # whatever it is, those who wait must not wait for ever
            flight.set_exception(error)
        finally:
            with self._lock:
                del self._flights[key]
            del flight


class ClipEncoder:
    """Clips → codes, on one device. Any number of threads may use it at once.

    Codes are found again by what was heard and by the codec, never by a name, so that a replaced clip is never stale.

    load: makes the encoder view, on `device`; called when it is first needed and again after `release`.
    fingerprint: of the codec. cache_bytes: how much of the codes made is kept.
    """

    def __init__(
        self,
        load: Callable[[], CodecEncoder],
        fingerprint: str,
        device: torch.device,
        *,
        cache_bytes: int = 16 << 20,
    ) -> None:
        self._load, self._fingerprint, self._device = load, fingerprint, device
        self._cache: ByteLRU[str, NDArray[np.uint16]] = ByteLRU(cache_bytes)
        self._flights: SingleFlight[str, NDArray[np.uint16]] = SingleFlight()
        self._encoder: CodecEncoder | None = None
        self._loading = threading.Lock()
        self._running = threading.Lock()  # one clip at a time: they would share one device anyway

    @property
    def loaded(self) -> bool:
        """Whether the encoder view is in memory."""
        return self._encoder is not None

    def encode(self, samples: Tensor) -> NDArray[np.uint16]:
        """Samples float32 `[n]`, n ≥ 1, mono at the codec's rate, on any device → codes uint16 `[K, T]`, read-only.

        The last frame is filled up with silence.
        Raises ValueError for samples of another shape, and whatever loading the encoder raises.
        """
        if samples.dim() != 1 or not len(samples):
            raise ValueError(f"A clip is one row of samples, not {list(samples.shape)}.")
        clip = samples.detach().to("cpu", torch.float32).contiguous()
        key = self._key(clip)
        return self._flights.do(key, lambda: self._codes(key, clip))

    def forget(self, codes: NDArray[np.uint16]) -> None:
        """Drop these codes `[K, T]`, whatever clip they were made of."""
        self._cache.drop_where(lambda kept: np.array_equal(kept, codes))

    def release(self) -> None:
        """Free the encoder view, or have it freed once the clip that is going through it is done.

        It is loaded again when next needed.
        """
        with self._loading:
            self._encoder = None

    def _key(self, clip: Tensor) -> str:
        digest = hashlib.sha256(self._fingerprint.encode())
        digest.update(clip.numpy().data)
        return digest.hexdigest()

    def _codes(self, key: str, clip: Tensor) -> NDArray[np.uint16]:
        # Looked up in here, not before the flight: the flight before this one may have ended in between.
        if (kept := self._cache.get(key)) is not None:
            return kept
        with self._running:
            codes = self._run(self._view(), clip)
        codes.setflags(write=False)
        self._cache.put(key, codes, codes.nbytes)
        return codes

    def _view(self) -> CodecEncoder:
        with self._loading:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder

    def _run(self, encoder: CodecEncoder, clip: Tensor) -> NDArray[np.uint16]:
        """Clip `[n]` → codes `[K, T]`, in pieces of whole frames."""
        config = encoder.config
        piece = max(1, round(ENCODE_SECONDS * config.frame_rate)) * config.frame_length
        audio = whole_frames(clip[None, None], config.frame_length)
        state = encoder.init_state(1)
        codes = [encoder.encode_step(part.to(self._device), state) for part in torch.split(audio, piece, dim=2)]
        return torch.cat(codes, dim=2)[0].cpu().numpy().astype(np.uint16)
