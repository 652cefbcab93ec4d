"""The reference doctor: each kind of degradation of a clip changes the light of its measure only."""

import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.audio.doctor import Fix, Report, apply, check_transcript, examine, findings
from engine.audio.edges import Edges
from engine.errors import UnusableReference
from engine.messages import english
from tests.support.damaged_speech import (
    GAP,
    MAN,
    RATE,
    WOMAN,
    Samples,
    at_loudness,
    at_rate,
    beginning,
    clipped,
    found,
    hiss,
    humming,
    intoned,
    joined,
    lights,
    low_passed,
    noisy,
    pause,
    written,
)

STORY = (
    "Every morning the baker opens his window and hangs a blue lamp above the door. Children on their way to school "
    "stop there, and choose something warm. Last winter the snow lay so high that nobody came for five days. He read "
    "old letters, fed the birds, and waited for the road."
)

MEASURES = ("length", "speech", "pauses", "edges", "clipping", "loudness", "noise", "rumble", "bandwidth", "voices")


@pytest.mark.parametrize(
    ("clip", "rate"),
    [(WOMAN, 16_000), (MAN, 44_100), (WOMAN, 96_000)],
    ids=["woman at 16 kHz", "man at 44 kHz", "woman at 96 kHz"],
)
def test_good_clip_has_only_green_findings(clip: Samples, rate: int) -> None:
    report = examine(at_rate(clip, rate), rate)
    assert tuple(finding.measure for finding in report.findings) == MEASURES
    assert lights(report) == {}
    assert report.light == "green"
    assert all(finding.fix is None for finding in report.findings)


BAD: dict[str, tuple[Callable[[Samples], Samples], str]] = {
    "short": (lambda clip: beginning(clip, 2.5), "length"),
    "mostly silence": (lambda clip: joined(pause(7), clip[: 8 * RATE], pause(10)), "speech"),
    "a long silence inside": (lambda clip: joined(clip, pause(3.5), beginning(clip, 5)), "pauses"),
    "clipped": (lambda clip: clipped(clip, 2.8), "clipping"),
    "clipped beyond use": (lambda clip: clipped(clip, 5) * np.float32(0.3), "clipping"),
    "noise at 5 dB": (lambda clip: noisy(clip, 5), "noise"),
    "noise at 5 dB, quiet": (lambda clip: noisy(clip, 5) * np.float32(0.2), "noise"),
    "noise without a pause": (lambda clip: noisy(clip[np.abs(clip) > 1e-3], 5), "noise"),
    "noise, not in the pauses": (lambda clip: joined(noisy(clip, 5), GAP, noisy(beginning(clip, 5), 5)), "noise"),
    "noise in the pauses alone": (lambda clip: joined(clip[:80_000], hiss(clip), clip[80_000:], hiss(clip)), "noise"),
    "hum": (humming, "rumble"),
    "telephone": (lambda clip: low_passed(clip, 3_400), "bandwidth"),
    "telephone, then a little noise": (lambda clip: noisy(low_passed(clip, 3_400), 40), "bandwidth"),
    "two voices": (lambda clip: joined(clip, GAP, MAN if clip is WOMAN else WOMAN), "voices"),
    "two voices at once": (lambda clip: joined(clip, MAN if clip is WOMAN else WOMAN), "voices"),
}  # fmt: skip


# Degradations whose measure hardly depends on the voice.
OF_ANY_VOICE = {
    "woman": (
        "short",
        "a long silence inside",
        "hum",
        "noise, not in the pauses",
        "noise without a pause",
        "two voices",
    ),
    "man": (
        "mostly silence",
        "clipped beyond use",
        "noise at 5 dB, quiet",
        "noise in the pauses alone",
        "telephone",
        "telephone, then a little noise",
        "two voices at once",
    ),
}
DEGRADED = [
    (kind, voice)
    for voice, other in (("woman", "man"), ("man", "woman"))
    for kind in BAD
    if kind not in OF_ANY_VOICE[other]
]


@pytest.mark.parametrize(("kind", "voice"), DEGRADED)
def test_degradation_changes_only_its_own_light(kind: str, voice: str) -> None:
    clip = WOMAN if voice == "woman" else MAN
    damage, name = BAD[kind]
    report = examine(damage(clip).astype(np.float32), RATE)
    others = {"length"} if name == "speech" else set()  # silence also makes the clip too long
    light = "amber" if name == "voices" else "red"  # the count of voices is uncertain
    assert lights(report).get(name) == light, report.findings
    assert set(lights(report)) - others == {name}, report.findings
    assert report.light == light


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (lambda clip: beginning(clip, 4), "length"),
        (lambda clip: joined(pause(5), clip[: 6 * RATE], pause(3)), "speech"),
        (lambda clip: joined(clip, pause(1.7), beginning(clip, 5)), "pauses"),
        (lambda clip: at_loudness(clip, -40), "loudness"),
        (lambda clip: at_loudness(clip, -75), "loudness"),
        (lambda clip: noisy(clip, 14), "noise"),
        (lambda clip: low_passed(clip, 5_500), "bandwidth"),
    ],
)
def test_moderate_degradation_is_amber(damage: Callable[[Samples], Samples], name: str) -> None:
    assert lights(examine(damage(WOMAN).astype(np.float32), RATE)) == {name: "amber"}


def test_quiet_clip_is_a_problem_only_where_rounding_to_16_bits_is_heard() -> None:
    """Preparation scales every reference to the same level, so that the level alone changes no voice."""
    for lufs, light in ((-61, "amber"), (-68, "amber"), (-73, "red")):
        quiet = at_loudness(WOMAN, lufs)
        as_16_bits, as_floats = (examine(written(quiet, subtype=subtype)) for subtype in ("PCM_16", "FLOAT"))
        assert found(as_16_bits, "loudness").light == light, lufs
        assert found(as_floats, "loudness").light == "amber"
        assert found(as_16_bits, "loudness").fix is (Fix.LEVEL if light == "amber" else None)
        assert found(as_floats, "loudness").fix is Fix.LEVEL


@pytest.mark.parametrize(("clip", "times"), [(WOMAN, 3), (MAN, 8)], ids=["woman", "man"])
def test_clipping_is_detected_after_lossy_coding(clip: Samples, times: float) -> None:
    assert "clipping" in lights(examine(written(clipped(clip, times), format="MP3", subtype=None)))
    assert "clipping" not in lights(examine(written(clip, format="MP3", subtype=None)))


def test_cut_words_are_found_at_both_ends() -> None:
    start, end = 3 * RATE, int(7.2 * RATE)  # inside words
    for clip, what in ((MAN[:end], "end"), (MAN[start:], "start"), (MAN[start:end], "both")):
        for heard in (clip, noisy(clip, 20), low_passed(clip, 3_400)):
            assert found(examine(heard, RATE), "edges").what == what
    assert found(examine(at_rate(clip, 44_100), 44_100), "edges").what == "both"
    assert found(examine(written(clip, format="MP3", subtype=None)), "edges").what == "both"


def test_no_word_is_cut_off_where_noise_or_a_close_onset_meets_the_edge() -> None:
    onset, end = int(0.2 * RATE), int(9.97 * RATE)  # within a frame of the first and the last sound
    for clip in (MAN[onset:end], noisy(MAN, 12), joined(hiss(MAN), MAN, hiss(MAN))):
        assert "edges" not in lights(examine(clip.astype(np.float32), RATE))


def test_end_that_is_not_used_is_not_judged() -> None:
    """The page cuts long files anywhere, and of more than 30 s the end is left out."""
    story = joined(*[MAN, GAP] * 3)
    for clip, what in ((joined(story, MAN[: 3 * RATE]), "good"), (joined(MAN[3 * RATE :], story), "start")):
        report = examine(clip, RATE)
        assert (found(report, "length").what, found(report, "edges").what) == ("long", what)


def test_cut_words_can_be_left_out_if_enough_remains() -> None:
    clip = joined(MAN, GAP, MAN[: 3 * RATE])
    report = examine(clip, RATE)
    ends = found(report, "edges")
    assert (ends.what, ends.fix) == ("end", Fix.EDGES)
    assert report.parts[Fix.EDGES][0] == 0
    assert report.parts[Fix.EDGES][1] == pytest.approx(len(MAN) / RATE, abs=0.1)
    assert report.best is not None
    assert report.best[1] <= report.parts[Fix.EDGES][1]
    alone = examine(MAN[: 3 * RATE], RATE)
    assert (found(alone, "edges").fix, alone.parts.get(Fix.EDGES)) == (None, None)


def test_finding_values_match_the_degradation() -> None:
    for snr in (5, 12, 20):
        value = found(examine(noisy(WOMAN, snr), RATE), "noise").value
        assert value == pytest.approx(snr, abs=2)
    for hertz in (3_400, 5_500):
        value = found(examine(low_passed(WOMAN, hertz), RATE), "bandwidth").value
        assert value == pytest.approx(hertz / 1_000, abs=0.3)
    assert found(examine(at_loudness(WOMAN, -31), RATE), "loudness").value == pytest.approx(-31, abs=0.1)
    assert found(examine(joined(WOMAN, pause(2), WOMAN[: 4 * RATE]), RATE), "pauses").value == pytest.approx(
        2.3, abs=0.3
    )
    assert found(examine(joined(pause(15), WOMAN), RATE), "speech").value == pytest.approx(50, abs=3)


def test_changing_pitch_or_level_is_one_voice() -> None:
    """The pitch changes every two seconds, within 4 semitones; the level of the second clip alternates."""
    parts = [WOMAN[start : start + 2 * RATE] for start in range(0, 14 * RATE, 2 * RATE)]
    changing = joined(*(intoned(part, 2 ** (st / 12)) for part, st in zip(parts, (0, 2, -2, 1, -1, 2, 0), strict=True)))
    assert found(examine(changing, RATE), "voices").light == "green"
    moved = examine(joined(*(part * np.float32(gain) for part, gain in zip(parts, (1, 0.3) * 4, strict=False))), RATE)
    assert found(moved, "voices").light == "green"


def test_hum_does_not_change_the_number_of_voices() -> None:
    both = found(examine(joined(WOMAN, GAP, MAN), RATE), "voices")
    assert found(examine(humming(joined(WOMAN, GAP, MAN)), RATE), "voices").value == pytest.approx(both.value, rel=0.15)
    assert found(examine(humming(MAN), RATE), "voices").light == "green"


def test_alternating_voices_are_found_and_excerpt_has_one() -> None:
    turns = joined(*(part for at in range(2) for part in (_turn(MAN, at), GAP, _turn(WOMAN, at), GAP)))
    report = examine(turns, RATE)
    assert lights(report) == {"voices": "amber"}
    assert found(report, "voices").fix is Fix.EXCERPT
    alone = examine(apply(turns, RATE, [Fix.EXCERPT]), RATE)
    assert found(alone, "voices").light == "green"
    assert alone.duration > 4


def _turn(clip: Samples, at: int) -> Samples:
    return clip[at * 5 * RATE : (at + 1) * 5 * RATE]


@cache
def _clip_and_report(kind: str) -> tuple[Samples, Report]:
    makers = {
        "clean": lambda: WOMAN,
        "noise": lambda: noisy(MAN, 8),
        "telephone": lambda: low_passed(MAN, 3_400),
        "two": lambda: joined(MAN[: 8 * RATE], WOMAN[: 8 * RATE]),
    }
    clip = makers[kind]()
    return clip, examine(clip, RATE)


@settings(max_examples=5, deadline=None)
@given(st.floats(-90, 90), st.sampled_from(["clean", "noise", "telephone", "two"]))
def test_gain_changes_only_the_loudness_finding(decibels: float, kind: str) -> None:
    clip, plain = _clip_and_report(kind)
    gain = np.float32(10 ** (decibels / 20))
    peak = np.abs(clip).max() * gain
    assume(not 0.9e-4 < peak < 1.1e-4)  # the silence threshold is 1e-4, after a filter that changes peaks
    loud = examine(clip * gain, RATE)
    if peak < 1e-4:
        assert [finding.measure for finding in loud.findings] == ["length", "speech"]
        return
    for one, other in zip(plain.findings, loud.findings, strict=True):
        assert one.value is not None
        if one.measure == "loudness":
            assert other.value == pytest.approx(one.value + decibels, abs=0.1)
        else:
            assert (other.measure, other.light) == (one.measure, one.light)
            assert other.value == pytest.approx(one.value, rel=0.02, abs=0.05)


def _signal_of(kind: str, count: int, seed: int) -> Samples:
    rng = np.random.default_rng(seed)
    made: dict[str, Callable[[], np.ndarray]] = {
        "silence": lambda: np.zeros(count),
        "an offset": lambda: np.full(count, 0.7),
        "noise": lambda: rng.normal(0, 0.1, count),
        "huge": lambda: rng.normal(0, 1e37, count),
        "tiny": lambda: rng.normal(0, 1e-30, count),
        "a tone": lambda: np.sin(np.arange(count) * rng.uniform(0.01, 3)),
        "a square": lambda: np.sign(np.sin(np.arange(count) * rng.uniform(0.01, 0.3))),
        "a click": lambda: np.where(np.arange(count) == count // 2, 1.0, 0.0),
        "speech": lambda: np.resize(np.roll(WOMAN, int(rng.integers(len(WOMAN)))), count),
        "speech, gated": lambda: np.resize(np.where(np.abs(MAN) > rng.uniform(0, 0.3), MAN, 0), count),
        "bits": lambda: np.sign(np.resize(WOMAN, count)),
    }
    return np.asarray(made[kind](), np.float32)


KINDS = ["silence", "an offset", "noise", "huge", "tiny", "a tone", "a square", "a click", "bits", "speech"]
KINDS.append("speech, gated")
RATES = [8_000, 11_025, 16_000, 22_050, 48_000, 192_000]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.one_of(st.integers(1, 40), st.integers(1, 100_000)),
    st.sampled_from(RATES),
    st.integers(0, 9),
    st.sets(st.sampled_from(list(Fix))),
)
def test_any_signal_is_examined_and_fixed_without_errors(
    kind: str, count: int, rate: int, seed: int, fixes: set[Fix]
) -> None:
    samples = _signal_of(kind, count, seed)
    report = examine(samples, rate)
    assert report.duration == pytest.approx(count / rate)
    for finding in report.findings:
        assert finding.value is None or math.isfinite(finding.value)
        assert str(finding.message).endswith((".", "?"))
    if report.best is not None:
        assert 0 <= report.best[0] < report.best[1] <= count / rate + 1e-3
    repaired = apply(samples, rate, fixes)
    assert repaired.dtype == np.float32
    assert 0 < len(repaired) <= count
    assert np.isfinite(repaired).all()


def test_silent_clip_gives_a_finding_and_invalid_input_raises() -> None:
    silent = examine(written(pause(6)))
    assert lights(silent) == {"speech": "red"}
    assert "silent" in str(found(silent, "speech").message)
    assert silent.best is None
    assert silent.speech_seconds == 0
    assert "No speech" in str(found(examine(noisy(pause(6) + np.float32(1e-9), -160), RATE), "speech").message)
    with pytest.raises(UnusableReference, match="not audio"):
        examine(b"Dear Sir or Madam, " * 400)
    with pytest.raises(ValueError, match="sample rate"):
        examine(WOMAN)


@pytest.mark.parametrize(("format", "source_of"), [("WAV", Path), ("FLAC", str), ("MP3", Path.read_bytes)])
def test_files_of_any_format_are_examined(format: str, source_of: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "clip"
    path.write_bytes(written(MAN, format=format, subtype=None))
    assert lights(examine(source_of(path))) == {}


def test_transcript_is_checked_against_spoken_seconds() -> None:
    spoken = examine(WOMAN, RATE).speech_seconds
    assert check_transcript(STORY, spoken).light == "green"
    half = examine(WOMAN[: 6 * RATE], RATE).speech_seconds
    assert check_transcript(STORY, half).light == "red"
    assert "too many words" in str(check_transcript(STORY, half).message)
    assert check_transcript(STORY.split(". ")[0], spoken).light == "red"
    assert "too few words" in str(check_transcript(STORY.split(". ")[0], spoken).message)
    assert check_transcript(STORY.upper(), spoken).light == "green"
    assert check_transcript("Yes.", 0.0).light == "red"
    assert "is empty" in str(check_transcript(" \n", spoken).message)
    silent = examine(joined(WOMAN[: 7 * RATE], pause(8), WOMAN[7 * RATE :]), RATE)
    assert silent.speech_seconds == pytest.approx(spoken + 0.6, abs=0.4)
    assert check_transcript("今天早上面包师打开窗户，在门上挂了一盏蓝色的灯。", 6.0).light == "green"


def test_findings_and_sentences_correspond() -> None:
    levels = [*np.linspace(-110, 70, 361).tolist(), *np.geomspace(0.01, 30_000, 200).tolist(), 0.0]
    single_value_findings: tuple[Callable[[float], findings.Finding], ...] = (
        *(findings.of_length, findings.of_pauses, findings.of_noise, findings.of_rumble),
        *(partial(findings.of_loudness, rounded=rounded) for rounded in (True, False)),
        *(findings.of_bandwidth, findings.of_voices, lambda level: findings.of_transcript(max(level, 0), 1.0)),
    )
    all_findings = [of(level) for of in single_value_findings for level in levels]
    all_findings += [findings.of_voices(None), findings.of_silence()]
    all_findings += [findings.of_little_speech(spoken, 0.1) for spoken in (0.1, 0.9)]
    all_findings += [findings.of_speech(share, at_ends) for share in (0.1, 0.5, 0.9) for at_ends in (True, False)]
    cut = [(start, end) for start in (True, False) for end in (True, False)]
    all_findings += [findings.of_edges(Edges(*ends, -3.0), repairable=True) for ends in cut]
    crests = [(share, crest, 1.3) for share in (0, 0.005, 0.1) for crest in (1.5, 2.2, 4)]
    all_findings += [findings.of_clipping(*measured) for measured in crests]
    lights = {f"doctor.{name}{light}" for name in ("", "verdict_") for light in ("green", "amber", "red")}
    used_keys = {finding.message.key for finding in all_findings} | {fix.label.key for fix in Fix}
    assert used_keys == {key for key in english() if key.startswith("doctor.")} - lights
    for finding in all_findings:
        text = str(finding.message)  # fails if a placeholder has no value
        assert text.endswith((".", "?"))
        assert finding.light == "green" or ":" in text or finding.what == "some"


def test_length_is_judged_as_it_is_displayed() -> None:
    results = {length: findings.of_length(length).what for length in (2.94, 2.96, 4.94, 4.96, 30.04, 30.06)}
    assert list(results.values()) == ["too_short", "short", "short", "good", "good", "long"], results


def test_finding_numbers_are_rounded() -> None:
    assert str(findings.of_length(2.4567).message).startswith("The clip lasts only 2.5 s:")
    assert findings.of_noise(12.3456).message.values == {"value": 12}
    assert str(findings.of_bandwidth(3_375).message).startswith("The speech ends at 3.4 kHz")


def test_examine_does_not_modify_samples() -> None:
    samples = MAN.copy()
    examine(samples, RATE)
    assert np.array_equal(samples, MAN)
