"""Encodes clips to codes. Concurrent requests for one clip share one encoding, and recent codes are cached."""

import hashlib
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.codec.views import CodecSizes, EncoderView, whole_frames

# A clip is encoded in parts of about this length, so that memory does not grow with the clip.
ENCODE_SECONDS = 2.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Deduplicates concurrent calls: work on one key runs once for all threads that request it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[K, Future[V]] = {}

    def do(self, key: K, work: Callable[[], V]) -> V:
        """Return or raise the outcome of `work`, or of the call already in progress for `key`.

        Results are not cached: a later call runs `work` again.
        """
        with self._lock:
            under_way = self._flights.get(key)
            flight = under_way or self._flights.setdefault(key, Future())
        try:
            if under_way is None:
                self._fly(key, flight, work)
            return flight.result()
        finally:
            # An error's traceback refers to this frame; the cycle would keep its memory.
            del flight, under_way

    def _fly(self, key: K, flight: Future[V], work: Callable[[], V]) -> None:
        try:
            flight.set_result(work())
        except BaseException as error:  # of any type: waiting threads must be woken
            flight.set_exception(error)
        finally:
            with self._lock:
                del self._flights[key]
            del flight


class ClipEncoder:
    """Encodes clips to codes on one device. Thread-safe.

    Cached codes are looked up by the clip's content, never by name, so a replaced clip never matches.

    load: loads the encoder view on `device`; called on first use and again after `release`.
    cache_bytes: capacity of the cache of codes.
    """

    def __init__(self, load: Callable[[], EncoderView], device: torch.device, *, cache_bytes: int = 16 << 20) -> None:
        self._load, self._device = load, device
        self._cache: ByteLRU[str, NDArray[np.uint16]] = ByteLRU(cache_bytes)
        self._flights: SingleFlight[str, NDArray[np.uint16]] = SingleFlight()
        self._encoder: EncoderView | None = None
        self._released = False
        self._loading = threading.Lock()
        self._running = threading.Lock()  # one clip at a time: they share one device

    def encode(self, samples: Tensor, content: bytes) -> NDArray[np.uint16]:
        """Encode a clip.

        Args:
            samples: float32 `[n]`, n ≥ 1, mono at the codec's rate, on any device.
            content: bytes to hash instead of the samples, which may be on a GPU; equal only for equal samples, such as
                the clip's file.

        Returns: codes uint16 `[K, T]`, read-only. The last frame is padded with silence.
        Raises ValueError for samples of another shape, and the errors of `load`.
        """
        if samples.dim() != 1 or not len(samples):
            raise ValueError(f"A clip is one row of samples, not {list(samples.shape)}.")
        key = hashlib.sha256(content).hexdigest()
        # Looked up in the flight and not before it, because another flight may have ended in between.
        return self._flights.do(
            key, lambda: self._cache.computed(key, lambda: self._codes(samples), lambda codes: codes.nbytes)
        )

    def forget(self, codes: NDArray[np.uint16]) -> None:
        """Drop these codes `[K, T]` from the cache, whichever clip they belong to.

        Codes of clips that are being encoded are not cached.
        """
        self._cache.drop_where(lambda _, kept: np.array_equal(kept, codes))

    def release(self) -> None:
        """Free the encoder view, after the clip being encoded if any. It is loaded again on next use."""
        with self._loading:
            self._encoder, self._released = None, True

    def warm_up_steps(self) -> tuple[Callable[[], object], ...]:
        """Return the steps that make the first clip as fast as later ones. After `release` they do nothing."""
        return self._load_ahead, self._encode_silence

    def _load_ahead(self) -> None:
        if not self._released:
            self._view()

    def _encode_silence(self) -> None:
        """Run the encoder once on a part of usual length: libraries choose kernels and allocate on the first run."""
        encoder = self._encoder
        if encoder is not None:
            with self._running:
                self._run(encoder, torch.zeros(_part_length(encoder.config), dtype=torch.float32, device=self._device))

    def _codes(self, clip: Tensor) -> NDArray[np.uint16]:
        with self._running:
            codes = self._run(self._view(), clip)
        codes.setflags(write=False)
        return codes

    def _view(self) -> EncoderView:
        with self._loading:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder

    def _run(self, encoder: EncoderView, clip: Tensor) -> NDArray[np.uint16]:
        """Encode a clip `[n]` in parts of whole frames. Returns codes `[K, T]`."""
        audio = whole_frames(clip.detach()[None, None].float(), encoder.config.frame_length)
        parts = torch.split(audio, _part_length(encoder.config), dim=2)
        state = encoder.init_state(1)
        codes = [encoder.encode_step(part.to(self._device), state) for part in parts]
        return torch.cat(codes, dim=2)[0].cpu().numpy().astype(np.uint16)


def _part_length(config: CodecSizes) -> int:
    """Samples of a part, whole frames."""
    return max(1, round(ENCODE_SECONDS * config.frame_rate)) * config.frame_length
