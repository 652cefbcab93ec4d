"""Which part of a clip is used: the speech, its soft edges, and no more of it than is allowed, cut at a
pause."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from engine.audio.vad import SAMPLE_RATE, Span

_FRAME = 160  # samples, 10 ms: how finely edges are found
_MARGIN = 0.1  # seconds kept round the speech: breath, the closure before a plosive
_FARTHEST = 0.3  # seconds that a word's soft beginning or end may lie outside what the detector found
_SOFT = 0.01  # of the level of loud speech, -40 dB: softer than that is not followed
_ABOVE_NOISE = 3.0  # times the level of the clip's quietest tenth


@dataclass(frozen=True)
class Excerpt:
    """Start and end in seconds, the stretches of speech inside, and their share of all the speech (1.0 when
    all is kept)."""

    start: float
    end: float
    spans: tuple[Span, ...]
    speech_kept: float


def choose_excerpt(heard: Tensor, spans: tuple[Span, ...], longest: float) -> Excerpt:
    """All the speech where it fits into `longest` seconds, else its beginning, up to a pause.

    Args:
        heard: float32 [n], mono, 16 kHz, on the CPU.
        spans: the stretches of speech in it, at least one, in order.
        longest: seconds.
    """
    levels = _levels(heard)
    start = max(_outermost(levels, spans[0][0], -1) - _MARGIN, 0.0)
    end = min(_outermost(levels, spans[-1][1], +1) + _MARGIN, len(heard) / SAMPLE_RATE)
    if end - start <= longest:
        return Excerpt(start, end, spans, 1.0)
    end = _pause_before(levels, spans, start + longest * 2 / 3, start + longest)
    inside = tuple((a, min(b, end)) for a, b in spans if a < end)
    return Excerpt(start, end, inside, _time(inside) / _time(spans))


def _levels(heard: Tensor) -> Tensor:
    """Root mean square of every 10 ms: [n] → [n // 160]."""
    return heard[: len(heard) // _FRAME * _FRAME].view(-1, _FRAME).square().mean(dim=1).sqrt()


def _outermost(levels: Tensor, bound: float, step: int) -> float:
    """From where the detector heard speech begin (step -1) or end (+1), outwards for as long as it is not
    quiet."""
    quiet = max(levels.quantile(0.1).item() * _ABOVE_NOISE, levels.quantile(0.95).item() * _SOFT)
    frame = round(bound * SAMPLE_RATE / _FRAME)
    for _ in range(round(_FARTHEST * SAMPLE_RATE / _FRAME)):
        beyond = frame if step > 0 else frame - 1
        if not 0 <= beyond < len(levels) or levels[beyond] <= quiet:
            break
        frame += step
    return frame * _FRAME / SAMPLE_RATE


def _pause_before(levels: Tensor, spans: tuple[Span, ...], earliest: float, latest: float) -> float:
    """Where to stop, at most at `latest`: in the longest pause after `earliest`, which is most likely a
    sentence's end."""
    pauses = [(a[1], b[0]) for a, b in pairwise(spans)]
    reachable = [(min(end, latest) - start, start) for start, end in pauses if earliest <= start <= latest - 0.03]
    if reachable:
        length, start = max(reachable)
        return start + min(length / 2, _MARGIN)
    # Somebody who never pauses: the quietest 50 ms there are.
    first, last = int(earliest * SAMPLE_RATE / _FRAME), int(latest * SAMPLE_RATE / _FRAME)
    smooth = levels[first:last].unfold(0, 5, 1).mean(dim=1)
    return (first + int(torch.argmin(smooth)) + 2) * _FRAME / SAMPLE_RATE


def _time(spans: tuple[Span, ...]) -> float:
    return sum(end - start for start, end in spans)
