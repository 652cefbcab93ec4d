"""Repairs of clips. Each fix is an idempotent function of the samples alone."""

import io
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import pairwise

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from engine.audio.decode import Recording, Source, decode
from engine.audio.doctor.best import best_excerpt, whole_words
from engine.audio.doctor.loudness import apply_target_gain
from engine.audio.doctor.noise import remove_rumble
from engine.audio.doctor.voices import SpeakerGroups, compare_voices
from engine.audio.excerpt import choose_excerpt
from engine.audio.reference import SpeechAnalysis, analyse_speech
from engine.audio.vad import SAMPLE_RATE, Span
from engine.errors import UnusableReference
from engine.messages import UserMessage

Samples = NDArray[np.float32]

LONG_PAUSE = 1.2  # seconds: longer than readers' pauses between sentences
_PAUSE_LEFT = 0.6  # seconds that remain of a long pause
_JOIN = 0.01  # seconds of cross-fade at a cut
_WORTH_CUTTING = 0.25  # seconds at an end; a cut leaves less, so that nothing is cut twice


class Fix(StrEnum):
    """A repair of a clip. The values are the serialized names."""

    RUMBLE = "rumble"
    EDGES = "edges"
    EXCERPT = "excerpt"
    TRIM = "trim"
    PAUSES = "pauses"
    LEVEL = "level"

    @property
    def label(self) -> UserMessage:
        """Label of the button for this fix."""
        return UserMessage(f"doctor.fix_{self}")


def repair(source: Source, fixes: Iterable[Fix]) -> bytes:
    """Apply fixes to a clip and return it as a file; see `apply`.

    Args:
        source: the bytes of an audio file, or its path.
    Returns: a mono WAV file of 32-bit floats at the clip's rate. No sample is rounded or clipped.
    Raises UnusableReference as `decode` does.
    """
    recording = decode(source)
    repaired = apply(recording.samples.numpy(), recording.sample_rate, fixes)
    file = io.BytesIO()
    soundfile.write(file, repaired, recording.sample_rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def apply(samples: Samples, sample_rate: int, fixes: Iterable[Fix]) -> Samples:
    """Apply fixes to samples, always in the same order.

    Args:
        samples: float32 [n], mono, finite, any scale; not changed.
        sample_rate: Hz, 8,000 to 192,000.
    Returns: float32 [m], m ≤ n, at the same rate and, without `Fix.LEVEL`, the same scale.
    """
    wanted = set(fixes)
    peak = np.float32(np.abs(samples).max(initial=0))
    if not wanted or peak == 0:
        return samples
    # Squares of the largest floats would overflow.
    repaired = (samples / peak).astype(np.float32)
    for fix, function in _FUNCTIONS.items():
        if fix in wanted:
            repaired = function(repaired, sample_rate)
    return repaired if Fix.LEVEL in wanted else repaired * peak


def parts(analysis: SpeechAnalysis, voices: SpeakerGroups) -> dict[Fix, Span]:
    """Return the spans, in seconds, that fixes which shorten the ends keep of a clip with speech."""
    kept = {Fix.EXCERPT: best_excerpt(analysis, voices), Fix.TRIM: _spoken_part(analysis)}
    whole = whole_words(analysis)
    return {**kept, Fix.EDGES: whole} if whole else kept


def _spoken_part(analysis: SpeechAnalysis) -> Span:
    excerpt = choose_excerpt(analysis.vad_samples, analysis.spans, np.inf)
    return excerpt.start, excerpt.end


def _whole_words(samples: Samples, rate: int) -> Samples:
    if (analysis := _analysed(samples, rate)) is None or (whole := whole_words(analysis)) is None:
        return samples
    return samples[round(whole[0] * rate) : round(whole[1] * rate)]


def _excerpt(samples: Samples, rate: int) -> Samples:
    if (analysis := _analysed(samples, rate)) is None:
        return samples
    voices = compare_voices(remove_rumble(analysis.vad_samples.numpy(), SAMPLE_RATE), analysis.spans)
    return _cut(samples, rate, best_excerpt(analysis, voices))


def _trim(samples: Samples, rate: int) -> Samples:
    if (analysis := _analysed(samples, rate)) is None:
        return samples
    return _cut(samples, rate, _spoken_part(analysis))


def _cut(samples: Samples, rate: int, span: Span) -> Samples:
    start = round(span[0] * rate) if span[0] > _WORTH_CUTTING else 0
    end = round(span[1] * rate) if span[1] < len(samples) / rate - _WORTH_CUTTING else len(samples)
    return samples[start:end]


def _with_short_pauses(samples: Samples, rate: int) -> Samples:
    """Remove the middle of each long inner pause, with a cross-fade."""
    if (analysis := _analysed(samples, rate)) is None:
        return samples
    for (_, start), (end, _) in reversed(list(pairwise(analysis.spans))):  # backwards, so that times stay valid
        if end - start > LONG_PAUSE:
            middle = (start + end) / 2
            away = (end - start - _PAUSE_LEFT) / 2
            samples = _joined(samples, int((middle - away) * rate), int((middle + away) * rate), int(_JOIN * rate))
    return samples


def _joined(samples: Samples, start: int, end: int, fade: int) -> Samples:
    """Remove the samples from `start` to `end`, with a cross-fade over the `fade` samples before each."""
    rising = np.linspace(0, 1, fade, dtype=np.float32)
    seam = samples[start - fade : start] * (1 - rising) + samples[end - fade : end] * rising
    return np.concatenate((samples[: start - fade], seam, samples[end:]))


def _analysed(samples: Samples, rate: int) -> SpeechAnalysis | None:
    """Analyse the samples; None without speech, in which case fixes leave the clip unchanged."""
    try:
        analysis = analyse_speech(Recording(torch.from_numpy(samples), rate))
    except UnusableReference:
        return None
    return analysis if analysis.spans else None


# In the order in which they are applied.
_FUNCTIONS: dict[Fix, Callable[[Samples, int], Samples]] = {
    Fix.RUMBLE: remove_rumble,
    Fix.EDGES: _whole_words,
    Fix.EXCERPT: _excerpt,
    Fix.TRIM: _trim,
    Fix.PAUSES: _with_short_pauses,
    Fix.LEVEL: apply_target_gain,
}
