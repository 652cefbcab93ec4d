"""An inaudible audio watermark, by Perth if it is installed (resemble-ai/Perth, MIT).

Perth makes inaudible changes below 2 kHz and can detect them. The watermark carries no message: it shows only that some
program with Perth, such as Reprise, made the audio. Perth scales by the loudest moment of the audio, so the audio has
to be complete before it is marked: takes are marked, streams are not.
"""

from __future__ import annotations

import io
import threading
import warnings
from contextlib import redirect_stdout
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InvalidOption

if TYPE_CHECKING:
    from torch import Tensor

FOUND = 0.5  # threshold: unmarked speech scores up to 0.2, marked speech as mp3 at 128 kbit/s 1.0
CHECKED_SECONDS = 30.0  # seconds of a file that are checked
SHORTEST = 0.25  # seconds that can be marked or checked
_PIECE, _MARGIN = 30.0, 0.5  # seconds marked at once, to bound memory; context on both sides, which is discarded


def watermark_installed() -> bool:
    """Return whether the optional packages are installed."""
    return all(find_spec(name) is not None for name in ("perth", "librosa", "pkg_resources"))


class Watermark:
    """Marks audio and detects the mark. Thread-safe. Created once, by `load_watermark`."""

    def __init__(self, net: Any) -> None:
        """net: Perth's network, with its spectrogram."""
        self._net, self._rate = net, int(net.hp.sample_rate)
        self._judging = threading.Lock()  # one check at a time, since anonymous visitors can request them

    def mark(self, samples: NDArray[np.floating], sample_rate: int) -> NDArray[np.float32]:
        """Add the watermark to mono samples, float `[n]` → `[n]`. Less than `SHORTEST` seconds stay unmarked."""
        import torch

        from engine.audio.resample import resample

        sound = torch.from_numpy(np.ascontiguousarray(samples, np.float32))
        if len(sound) < SHORTEST * sample_rate:
            return sound.numpy()
        piece, margin = round(_PIECE * sample_rate), round(_MARGIN * sample_rate)
        marked = sound.clone()
        for start in range(0, len(sound), piece):
            first, last = max(0, start - margin), min(len(sound), start + piece + margin)
            added = resample(self._added(resample(sound[first:last], sample_rate, self._rate)), self._rate, sample_rate)
            end = min(start + piece, len(sound), first + len(added))
            marked[start:end] += added[start - first : end - first]
        return marked.clamp(-1, 1).numpy()

    def found(self, samples: Tensor, sample_rate: int) -> bool:
        """Return whether mono samples, float `[n]`, carry the watermark; False below `SHORTEST` seconds."""
        import torch

        from engine.audio.resample import resample

        if len(samples) < SHORTEST * sample_rate:
            return False
        with self._judging, torch.inference_mode():
            magnitudes, _ = self._net.ap.signal_to_magphase(resample(samples, sample_rate, self._rate))
            return float(self._net.decoder(magnitudes[None])[0]) > FOUND

    def _added(self, sound: Tensor) -> Tensor:
        """Return the watermark alone, at Perth's rate, so that the audio itself does not go through a spectrogram."""
        import torch

        with torch.inference_mode():
            magnitudes, phases = self._net.ap.signal_to_magphase(sound)
            marked, _ = self._net.encoder(magnitudes[None])
            both = [self._net.ap.magphase_to_signal(each, phases) for each in (marked[0], magnitudes)]
            added = torch.zeros_like(sound)
            length = min(len(sound), len(both[0]))
            added[:length] = both[0][:length] - both[1][:length]
        return torch.nan_to_num(added)


def load_watermark() -> Watermark:
    """Return the watermark, loading it once. Raises InvalidOption if its packages are not installed."""
    with _loading:
        return _load()


_loading = threading.Lock()


@cache
def _load() -> Watermark:
    if not watermark_installed():
        raise InvalidOption("watermark.missing")
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # Perth prints; MCP may use standard output
        warnings.simplefilter("ignore")
        from perth import PerthImplicitWatermarker

        if PerthImplicitWatermarker is None:
            raise InvalidOption("watermark.missing")
        return Watermark(PerthImplicitWatermarker().perth_net.eval())
