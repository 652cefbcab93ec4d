"""Summaries of measured utterances."""

import pytest

from benchmarks.judges.mos import OpinionScores
from benchmarks.judges.phones import PhoneErrors
from benchmarks.judges.words import WordErrors
from benchmarks.quality.meter import Measured, summary

DOMAIN = "word error, pocketsphinx with bigrams of the training's sentences"


def measured(voice: str, errors: int, f0: tuple[float, float], **more: float | bool | OpinionScores | None) -> Measured:
    counted = {"domain": WordErrors(errors, 4), "general": WordErrors(2 * errors, 4)}
    values = {"gross_errors": None, "similarity": 0.8, "nearest": True, "scores": OpinionScores(3.0, 2.5, 2.0), **more}
    return Measured(voice, "a b c d", {}, counted, "", PhoneErrors(errors, 8), f0, **values)  # type: ignore[arg-type]


MODEL = [
    measured("low", 0, (80.0, 160.0), nearest=False, similarity=0.6, scores=OpinionScores(4.0, 3.5, 4.0)),
    measured("low", 1, (80.0, 160.0)),
    measured("middle", 2, (120.0, 240.0)),
    measured("high", 1, (200.0, 400.0)),
]


def test_summary_has_every_measure_with_intervals_over_voices() -> None:
    estimates = summary(MODEL)
    found = {name: estimate.value for name, estimate in estimates.items()}
    assert found == {
        DOMAIN: pytest.approx(4 / 16),
        "word error, pocketsphinx with its general model": pytest.approx(8 / 16),
        "phone error, no language model": pytest.approx(4 / 32),
        "F0 correlation": pytest.approx(1.0),
        "F0 median error, semitones": pytest.approx(12.0),
        "speaker similarity to the reference": pytest.approx(0.75),
        "own reference is the nearest": pytest.approx(0.75),
        "sound quality, DNSMOS P.835, speech alone": pytest.approx(3.25),
        "sound quality, DNSMOS P.835, overall": pytest.approx(2.75),
        "sound quality, DNSMOS P.808": pytest.approx(2.5),
    }
    domain = estimates[DOMAIN]
    assert (domain.items, domain.groups) == (4, 3)
    assert (domain.low, domain.high) == (pytest.approx(1 / 8), pytest.approx(1 / 2))


def test_gross_pitch_errors_ignore_undefined_values() -> None:
    copies = [measured("low", 0, (80.0, 81.0), gross_errors=share) for share in (0.1, 0.3, float("nan"))]
    assert summary(copies)["frames with F0 more than 20 % off"].value == pytest.approx(0.2)


def test_undefined_measure_is_left_out() -> None:
    one_voice = [measured("low", 0, (80.0, 80.0)), measured("low", 0, (80.0, 82.0))]
    assert "F0 correlation" not in summary(one_voice)
