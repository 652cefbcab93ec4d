"""Selection of the part of a clip to use: the speech with its soft edges, cut at a pause if it is too long."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from engine.audio.vad import SAMPLE_RATE, Span

FRAME = 160  # samples, 10 ms: time resolution of edges
MARGIN = 0.1  # seconds kept around the speech: breath, the closure before a plosive
_FARTHEST = 0.3  # seconds that a word's soft edge may extend beyond the detected speech
_SOFT = 0.01  # of the level of loud speech, -40 dB: anything softer counts as quiet
_SHORT_PAUSE = 0.6  # seconds
_ABOVE_NOISE = 3.0  # times the level of the clip's quietest tenth


@dataclass(frozen=True)
class Excerpt:
    """A part of a clip: start and end in seconds, its segments of speech, and their share of all the speech.

    lead: seconds of `MARGIN` that the clip lacks before the first word.
    """

    start: float
    end: float
    spans: tuple[Span, ...]
    speech_kept: float
    lead: float = 0.0


def choose_excerpt(samples: Tensor, spans: tuple[Span, ...], longest: float) -> Excerpt:
    """Return all the speech if it fits into `longest` seconds, else its beginning, up to a pause.

    Args:
        samples: float32 [n], mono, 16 kHz, on the CPU.
        spans: its segments of speech, at least one, in order.
        longest: seconds.
    """
    levels = frame_levels(samples)
    first = extend_edge(levels, spans[0][0], -1) - MARGIN
    start, lead = max(first, 0.0), max(-first, 0.0)
    longest -= lead
    end = min(extend_edge(levels, spans[-1][1], +1) + MARGIN, len(samples) / SAMPLE_RATE)
    if end - start <= longest:
        return Excerpt(start, end, spans, 1.0, lead)
    end = _pause_before(levels, spans, start + longest * 2 / 3, start + longest)
    inside = tuple((a, min(b, end)) for a, b in spans if a < end)
    return Excerpt(start, end, inside, total_duration(inside) / total_duration(spans), lead)


def frame_levels(samples: Tensor) -> Tensor:
    """Return the RMS of every 10 ms: [n] → [n // 160]."""
    return samples[: len(samples) // FRAME * FRAME].view(-1, FRAME).square().mean(dim=1).sqrt()


def extend_edge(levels: Tensor, bound: float, step: int) -> float:
    """Move the start (step -1) or end (+1) of detected speech outwards until the level is quiet."""
    quiet = max(levels.quantile(0.1).item() * _ABOVE_NOISE, levels.quantile(0.95).item() * _SOFT)
    frame = round(bound * SAMPLE_RATE / FRAME)
    for _ in range(round(_FARTHEST * SAMPLE_RATE / FRAME)):
        beyond = frame if step > 0 else frame - 1
        if not 0 <= beyond < len(levels) or levels[beyond] <= quiet:
            break
        frame += step
    return frame * FRAME / SAMPLE_RATE


def _pause_before(levels: Tensor, spans: tuple[Span, ...], earliest: float, latest: float) -> float:
    """Return where to cut between two times: in the longest pause, most likely the end of a sentence."""
    pauses = [(a[1], b[0]) for a, b in pairwise(spans)]
    reachable = [(min(end, latest) - start, start) for start, end in pauses if earliest <= start <= latest - 0.03]
    if reachable:
        length, start = max(reachable)
        return start + min(length / 2, MARGIN)
    cut = quietest_point(levels, earliest, latest)
    # Within a pause that starts earlier, the excerpt ends with the speech before it.
    return next((min(cut, start + MARGIN) for start, end in pauses if start <= cut < end), cut)


def quietest_point(levels: Tensor, earliest: float, latest: float) -> float:
    """Return the middle of the quietest 50 ms between two times."""
    first, last = int(earliest * SAMPLE_RATE / FRAME), int(latest * SAMPLE_RATE / FRAME)
    smooth = levels[first:last].unfold(0, 5, 1).mean(dim=1)
    return (first + int(torch.argmin(smooth)) + 2) * FRAME / SAMPLE_RATE


def spoken_duration(spans: tuple[Span, ...]) -> float:
    """Return the seconds of speech including short pauses, which correspond to punctuation in the text."""
    return total_duration(spans) + sum(min(later[0] - sooner[1], _SHORT_PAUSE) for sooner, later in pairwise(spans))


def total_duration(spans: tuple[Span, ...]) -> float:
    """Return the total duration of spans in seconds."""
    return sum(end - start for start, end in spans)
