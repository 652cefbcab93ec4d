"""Measurements of one utterance: words, phones, pitch, speaker similarity and sound quality."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.bootstrap import Estimate, estimate, mean
from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.judges import pitch
from benchmarks.judges.mos import OpinionScores, opinion_scores
from benchmarks.judges.phones import PhoneErrors, PhoneJudge, phone_error_rate
from benchmarks.judges.similarity import SpeakerEncoder, own_is_nearest
from benchmarks.judges.sphinx import SphinxRecogniser
from benchmarks.judges.words import WordErrors, word_error_rate, word_errors

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Measured:
    """One utterance of one voice.

    heard, errors: recognised words and word errors, by the name of the language model. phones: recognised without a
    language model. pitch: median F0 of the target and of the utterance. gross_errors: share of frames with wrong pitch,
    for a copy only. nearest: whether the voice's own reference is the nearest of all.
    """

    voice: str
    said: str
    heard: dict[str, str]
    errors: dict[str, WordErrors]
    phones: str
    phone_errors: PhoneErrors
    pitch: pitch.Pitch
    gross_errors: float | None
    similarity: float
    nearest: bool
    scores: OpinionScores


Statistic = Callable[[Sequence[Measured]], float]


@dataclass(frozen=True)
class _Known:
    """Precomputed data of a voice."""

    vector: NDArray[np.float32]
    f0: float


class Meter:
    """Meter of utterances in an evaluation set's voices, compared with all references. Not thread-safe."""

    def __init__(self, data: EvaluationSet) -> None:
        self._judges = (SphinxRecogniser.domain(data.domain, data.vocabulary()), SphinxRecogniser.general())
        self._phones, self._encoder = PhoneJudge(), SpeakerEncoder()
        self._known = {speaker.name: self._learn(speaker.reference) for speaker in data.speakers}

    def measure(
        self, speaker: Speaker, said: str, samples: Samples, rate: int, copy_of: Clip | None = None
    ) -> Measured:
        """Measure `samples` [n] at `rate` Hz, in which `speaker` should say `said`.

        Pitch is compared with the speaker's reference or, for a copy of a clip, with the clip, also frame by frame.
        Silence counts as no words, no pitch and no voice.
        """
        heard = {judge.name: judge.hear(samples, rate) for judge in self._judges}
        phones = self._phones.hear(samples, rate)
        f0 = pitch.track(samples, rate)
        original = pitch.track(*copy_of.read()) if copy_of else None
        wanted = self._known[speaker.name].f0 if original is None else pitch.median(original)
        similarity, nearest = self._likeness(speaker.name, samples, rate)
        return Measured(
            voice=speaker.name,
            said=said,
            heard=heard,
            errors={name: word_errors(said, text) for name, text in heard.items()},
            phones=" ".join(phones),
            phone_errors=self._phones.errors(said, phones),
            pitch=(wanted, pitch.median(f0)),
            gross_errors=None if original is None else pitch.gross_errors(original, f0),
            similarity=similarity,
            nearest=nearest,
            scores=opinion_scores(samples, rate),
        )

    def _learn(self, clip: Clip) -> _Known:
        samples, rate = clip.read()
        return _Known(self._encoder.embed(samples, rate), pitch.median(pitch.track(samples, rate)))

    def _likeness(self, name: str, samples: Samples, rate: int) -> tuple[float, bool]:
        try:
            vector = self._encoder.embed(samples, rate)
        except ValueError:  # silence
            return 0.0, False
        own = list(self._known).index(name)
        vectors = [known.vector for known in self._known.values()]
        return float(vector @ vectors[own]), own_is_nearest(vector, own, vectors)


def summary(all_measured: Sequence[Measured]) -> dict[str, Estimate]:
    """Return all figures of a set of utterances by their names in the table, with intervals over voices."""
    return {
        name: estimate(all_measured, statistic, group=lambda measured: measured.voice)
        for name, statistic in _STATISTICS.items()
        if math.isfinite(statistic(all_measured))
    }


def _error_rate(judge: str) -> Statistic:
    return lambda chosen: word_error_rate(each.errors[judge] for each in chosen)


def _mean_gross_errors(chosen: Sequence[Measured]) -> float:
    known = [each.gross_errors for each in chosen if each.gross_errors is not None and each.gross_errors >= 0]
    return mean(known) if known else math.nan


_STATISTICS: dict[str, Statistic] = {
    "word error, pocketsphinx with bigrams of the training's sentences": _error_rate("domain"),
    "word error, pocketsphinx with its general model": _error_rate("general"),
    "phone error, no language model": lambda chosen: phone_error_rate(each.phone_errors for each in chosen),
    "F0 correlation": lambda chosen: pitch.correlation([each.pitch for each in chosen]),
    "F0 median error, semitones": lambda chosen: pitch.median_semitones_off([each.pitch for each in chosen]),
    "frames with F0 more than 20 % off": _mean_gross_errors,
    "speaker similarity to the reference": lambda chosen: mean([each.similarity for each in chosen]),
    "own reference is the nearest": lambda chosen: mean([float(each.nearest) for each in chosen]),
    "sound quality, DNSMOS P.835, speech alone": lambda chosen: mean([each.scores.signal for each in chosen]),
    "sound quality, DNSMOS P.835, overall": lambda chosen: mean([each.scores.overall for each in chosen]),
    "sound quality, DNSMOS P.808": lambda chosen: mean([each.scores.p808 for each in chosen]),
}
