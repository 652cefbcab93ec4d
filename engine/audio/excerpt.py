"""Which part of a clip is used: the speech, its soft edges, and no more of it than is allowed, cut at a
pause."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from engine.audio.vad import SAMPLE_RATE, Span

FRAME = 160  # samples, 10 ms: how finely edges are found
MARGIN = 0.1  # seconds kept round the speech: breath, the closure before a plosive
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
    levels = levels_of(heard)
    start = max(outermost(levels, spans[0][0], -1) - MARGIN, 0.0)
    end = min(outermost(levels, spans[-1][1], +1) + MARGIN, len(heard) / SAMPLE_RATE)
    if end - start <= longest:
        return Excerpt(start, end, spans, 1.0)
    end = _pause_before(levels, spans, start + longest * 2 / 3, start + longest)
    inside = tuple((a, min(b, end)) for a, b in spans if a < end)
    return Excerpt(start, end, inside, time_of(inside) / time_of(spans))


def levels_of(heard: Tensor) -> Tensor:
    """Root mean square of every 10 ms: [n] → [n // 160]."""
    return heard[: len(heard) // FRAME * FRAME].view(-1, FRAME).square().mean(dim=1).sqrt()


def outermost(levels: Tensor, bound: float, step: int) -> float:
    """From where the detector heard speech begin (step -1) or end (+1), outwards for as long as it is not
    quiet."""
    quiet = max(levels.quantile(0.1).item() * _ABOVE_NOISE, levels.quantile(0.95).item() * _SOFT)
    frame = round(bound * SAMPLE_RATE / FRAME)
    for _ in range(round(_FARTHEST * SAMPLE_RATE / FRAME)):
        beyond = frame if step > 0 else frame - 1
        if not 0 <= beyond < len(levels) or levels[beyond] <= quiet:
            break
        frame += step
    return frame * FRAME / SAMPLE_RATE


def _pause_before(levels: Tensor, spans: tuple[Span, ...], earliest: float, latest: float) -> float:
    """Where to stop, at most at `latest`: in the longest pause after `earliest`, which is most likely a
    sentence's end."""
    pauses = [(a[1], b[0]) for a, b in pairwise(spans)]
    reachable = [(min(end, latest) - start, start) for start, end in pauses if earliest <= start <= latest - 0.03]
    if reachable:
        length, start = max(reachable)
        return start + min(length / 2, MARGIN)
    return quietest(levels, earliest, latest)  # somebody who never pauses


def quietest(levels: Tensor, earliest: float, latest: float) -> float:
    """The middle of the quietest 50 ms between two times."""
    first, last = int(earliest * SAMPLE_RATE / FRAME), int(latest * SAMPLE_RATE / FRAME)
    smooth = levels[first:last].unfold(0, 5, 1).mean(dim=1)
    return (first + int(torch.argmin(smooth)) + 2) * FRAME / SAMPLE_RATE


def time_of(spans: tuple[Span, ...]) -> float:
    """Seconds of all of them together."""
    return sum(end - start for start, end in spans)
