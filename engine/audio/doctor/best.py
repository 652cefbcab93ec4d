"""Selection of the best part of a clip for a voice: 8 to 15 s, cut at pauses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

from engine.audio.clip_length import BEST_FROM, BEST_TO, SHORTEST_ADVISED
from engine.audio.doctor.clipping import clipped_samples
from engine.audio.doctor.voices import TWO_VOICES, SpeakerGroups
from engine.audio.edges import Edges
from engine.audio.excerpt import FRAME, MARGIN, extend_edge, frame_levels, quietest_point, total_duration
from engine.audio.reference import SpeechAnalysis
from engine.audio.vad import SAMPLE_RATE, Span

_PIECE = 6.0  # seconds: longer speech without a pause is split at a quiet place

# Scores of a candidate, in equivalent seconds of speech.
_ENOUGH = 12.0  # seconds of speech; more adds nothing
_SILENCE = 0.5  # per second without speech
_SHORT = 3.0  # per second below 8
_PAUSE, _LONG_PAUSE = 2.0, 0.5  # per second of pause before and after, up to half a second: the end of a sentence
_NO_PAUSE = 4.0  # for an end within a word
_FLAWED = 20.0  # for speech that is clipped throughout
_NOISY, _QUIET_ENOUGH = 0.2, 30.0  # per dB that the level of speech over pauses is below 30
_MIXED = 20.0  # for two voices


@dataclass(frozen=True)
class _Piece:
    """A segment of speech, or a part of one.

    span: start and end in seconds.
    flawed: share of clipped samples.
    voice: index of the voice.
    """

    span: Span
    flawed: float
    voice: int


def best_excerpt(analysis: SpeechAnalysis, voices: SpeakerGroups) -> Span:
    """Return the best part of at most 15 s for a voice.

    It is preferably at least 8 s of one voice with little silence, from pause to pause, clean and unclipped. If all the
    speech is of one voice and no longer than 15 s, it is returned whole, unless a word is cut off at its ends.

    Args:
        analysis: analysis of a clip with speech.
        voices: voices of the same clip.
    Returns: start and end in seconds, including soft edges and a margin, within the clip.
    """
    levels = frame_levels(analysis.vad_samples)
    pieces = [part for piece in _pieces(analysis, voices) for part in _split(levels, piece)]
    edges = _edges(levels, [piece.span for piece in pieces], len(analysis.vad_samples) / SAMPLE_RATE)
    cut = analysis.edges
    is_whole = not (cut.cut_start or cut.cut_end) and len({piece.voice for piece in pieces}) == 1
    if is_whole and edges[-1][1] - edges[0][0] <= BEST_TO:
        return edges[0][0], edges[-1][1]
    powers = levels.square().double()
    first, last = max(_stretches(edges), key=lambda ends: _score(powers, pieces, edges, cut, ends))
    return edges[first][0], edges[last][1]


def whole_words(analysis: SpeechAnalysis) -> Span | None:
    """Return the part from pause to pause without the words that are cut off at the ends of the clip.

    None if no word is cut off, or if less than 5 s would remain.
    """
    samples, spans = analysis.vad_samples, analysis.spans
    end = len(samples) / SAMPLE_RATE
    cut = analysis.edges
    edges = _edges(frame_levels(samples), spans, end)[cut.cut_start : len(spans) - cut.cut_end]
    if not (cut.cut_start or cut.cut_end) or not edges or edges[-1][1] - edges[0][0] < SHORTEST_ADVISED:
        return None
    return edges[0][0] if cut.cut_start else 0.0, edges[-1][1] if cut.cut_end else end


def _pieces(analysis: SpeechAnalysis, voices: SpeakerGroups) -> Iterator[_Piece]:
    rate = analysis.recording.sample_rate
    flat = clipped_samples(analysis.recording.samples.numpy())
    two = voices.distance is not None and voices.distance >= TWO_VOICES
    for span, voice in zip(analysis.spans, voices.groups, strict=True):
        inside = flat[round(span[0] * rate) : round(span[1] * rate)]
        yield _Piece(span, float(inside.mean()) if len(inside) else 0.0, voice if two else 0)


def _split(levels: Tensor, piece: _Piece) -> Iterator[_Piece]:
    """Split a piece at quiet places into parts of at most 6 s."""
    start, end = piece.span
    while end - start > _PIECE:
        cut = quietest_point(levels, start + _PIECE / 2, start + _PIECE)
        yield _Piece((start, cut), piece.flawed, piece.voice)
        start = cut
    yield _Piece((start, end), piece.flawed, piece.voice)


def _edges(levels: Tensor, spans: Sequence[Span], end: float) -> list[Span]:
    """Return where to cut before and after each piece of speech: outside its soft edges, within half the pause."""
    middles = [0.0, *((a[1] + b[0]) / 2 for a, b in pairwise(spans)), end]
    return [
        (
            max(extend_edge(levels, span[0], -1) - MARGIN, middles[i]),
            min(extend_edge(levels, span[1], +1) + MARGIN, middles[i + 1]),
        )
        for i, span in enumerate(spans)
    ]


def _stretches(edges: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Iterate over all candidates of at most 15 s, as indices of their first and last piece."""
    for first, (start, _) in enumerate(edges):
        for last in range(first, len(edges)):
            if edges[last][1] - start > BEST_TO:
                break
            yield first, last


def _score(powers: Tensor, pieces: Sequence[_Piece], edges: Sequence[Span], cut: Edges, ends: tuple[int, int]) -> float:
    """Score the candidate from one piece to another, in seconds of speech. powers: power of every 10 ms. cut: the ends
    of the clip."""
    (start, _), (_, end) = edges[ends[0]], edges[ends[1]]
    chosen = pieces[ends[0] : ends[1] + 1]
    spoken = total_duration(tuple(piece.span for piece in chosen))
    flawed = sum(piece.flawed * (piece.span[1] - piece.span[0]) for piece in chosen) / spoken
    noise = max(_QUIET_ENOUGH - _speech_over_pauses(powers[_frame(start) : _frame(end) + 1]), 0)
    worth = min(spoken, _ENOUGH) - _SILENCE * (end - start - spoken) - _SHORT * max(BEST_FROM - (end - start), 0)
    worth += sum(_PAUSE * min(pause, _LONG_PAUSE) if pause > 0 else -_NO_PAUSE for pause in _pauses(pieces, cut, ends))
    return worth - _FLAWED * flawed - _NOISY * noise - _MIXED * (len({piece.voice for piece in chosen}) > 1)


def _pauses(pieces: Sequence[_Piece], cut: Edges, ends: tuple[int, int]) -> tuple[float, float]:
    """Return the seconds of silence before and after a candidate. The ends of the clip get the full bonus, unless a
    word is cut off there."""
    first, last = ends
    start, end = 0.0 if cut.cut_start else _LONG_PAUSE, 0.0 if cut.cut_end else _LONG_PAUSE
    before = pieces[first].span[0] - pieces[first - 1].span[1] if first else start
    after = pieces[last + 1].span[0] - pieces[last].span[1] if last + 1 < len(pieces) else end
    return before, after


def _frame(seconds: float) -> int:
    return int(seconds * SAMPLE_RATE / FRAME)


def _speech_over_pauses(powers: Tensor) -> float:
    """Return the level of the louder half over that of the quietest tenth, in dB."""
    ordered = powers.sort().values
    loud, quiet = ordered[len(ordered) // 2 :].mean(), ordered[len(ordered) // 10]
    return 10 * float((loud / quiet.clamp_min(1e-12)).clamp_min(1).log10())
