"""Detection of words that are cut off at the ends of a clip."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.audio.excerpt import FRAME, frame_levels
from engine.audio.vad import SAMPLE_RATE, Span

_EDGE = 80  # samples, 5 ms at each end
_BESIDE = 6  # frames at the start, 60 ms
_NEAR = 0.05  # seconds: the detected speech of a cut word is at most so far from the end of the clip
# dB. A word that ends has decayed, and one that begins rises. Of 1,428 whole clips no end and 4 starts exceed these
# levels (1,156 recordings of people, mostly telephone prompts, which are trimmed closely; the 4 are of espeak-ng). Of
# cuts at random places inside speech 46 to 81 % do, also in noise and reverberation; soft consonants do not (measured).
_LOUD = -12.0  # relative to the speech
_ABOVE_NOISE = 8.0  # over the clip's quietest tenth
_RISE = 4.0  # from the start to the loudest frame beside it
_SILENT = -60.0


@dataclass(frozen=True)
class Edges:
    """The ends of a clip. cut_start, cut_end: whether a word is cut off there.

    level: dB of the louder end relative to the speech, at least -60.
    """

    cut_start: bool
    cut_end: bool
    level: float


def examine_edges(samples: Tensor, spans: tuple[Span, ...]) -> Edges:
    """Find whether a clip begins or ends inside a word; independent of gain.

    Args:
        samples: float32 [n], mono, 16 kHz, on the CPU. spans: its segments of speech, at least one.
    """
    levels = frame_levels(samples)
    speech = _decibels(torch.cat([samples[int(a * SAMPLE_RATE) : int(b * SAMPLE_RATE)] for a, b in spans]))
    noise = 20 * float(levels.quantile(0.1).clamp_min(1e-10).log10())
    start, end = _decibels(samples[:_EDGE]), _decibels(samples[-_EDGE:])
    loud = max(speech + _LOUD, noise + _ABOVE_NOISE)
    rise = max(map(_decibels, samples[: _BESIDE * FRAME].split(FRAME))) - start
    return Edges(
        cut_start=spans[0][0] < _NEAR and start > loud and rise < _RISE,
        cut_end=len(samples) / SAMPLE_RATE - spans[-1][1] < _NEAR and end > loud,
        level=max(start - speech, end - speech, _SILENT),
    )


def _decibels(samples: Tensor) -> float:
    return 10 * float(samples.square().mean().clamp_min(1e-20).log10())
