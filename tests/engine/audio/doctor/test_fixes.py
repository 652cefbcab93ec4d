"""The reference doctor's fixes, and its choice of the best part of a clip."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from engine.audio.doctor import Fix, apply, examine, repair
from engine.audio.doctor.loudness import clip_loudness
from engine.audio.reference import prepare_reference
from tests.support.damaged_speech import (
    GAP,
    MAN,
    RATE,
    WOMAN,
    at_loudness,
    beginning,
    clipped,
    found,
    humming,
    joined,
    lights,
    noisy,
    pause,
    written,
)


def test_offered_fix_turns_the_light_green() -> None:
    cases = {
        Fix.LEVEL: (at_loudness(MAN, -50), "loudness"),
        Fix.RUMBLE: (humming(MAN), "rumble"),
        Fix.TRIM: (joined(pause(14), MAN, pause(4)), "speech"),
        Fix.PAUSES: (joined(MAN, pause(5), MAN), "pauses"),
        Fix.EXCERPT: (joined(WOMAN, GAP, WOMAN), "length"),
        Fix.EDGES: (joined(MAN, GAP, MAN[: 3 * RATE]), "edges"),
    }
    for fix, (clip, name) in cases.items():
        before = examine(clip, RATE)
        assert found(before, name).fix is fix
        assert lights(examine(apply(clip, RATE, [fix]), RATE)) == {}, fix


DAMAGED = {
    "as it is": WOMAN[: 9 * RATE],
    "silence around": joined(pause(3), MAN[: 5 * RATE], pause(2)),
    "silence inside": joined(MAN[: 5 * RATE], pause(3), MAN[: 5 * RATE], pause(2), MAN[: 5 * RATE]),
    "hum": humming(MAN[: 5 * RATE]),
    "long": joined(WOMAN, GAP, WOMAN),
    "two voices": joined(WOMAN, GAP, MAN),
    "cut words": joined(MAN[3 * RATE : 5 * RATE], GAP, MAN, GAP, MAN[: 3 * RATE]),
    "quiet and noisy": noisy(joined(pause(1), MAN, pause(1)), 15) * np.float32(0.01),
}


# Each fix alone on clips that it changes, and all fixes together on those that several change.
FIXED = [
    (Fix.RUMBLE, "hum"), (Fix.EXCERPT, "long"), (Fix.TRIM, "silence around"), (Fix.PAUSES, "silence inside"),
    (Fix.EDGES, "cut words"), (Fix.LEVEL, "quiet and noisy"), (Fix.LEVEL, "as it is"),
    *((None, kind) for kind in ("silence inside", "two voices", "cut words", "quiet and noisy")),
]  # fmt: skip


@pytest.mark.parametrize(("fix", "kind"), FIXED)
def test_fixes_are_idempotent(fix: Fix | None, kind: str) -> None:
    fixes = [fix] if fix else list(Fix)
    once = apply(DAMAGED[kind], RATE, fixes)
    twice = apply(once, RATE, fixes)
    assert len(twice) == len(once)
    # The high-pass has a gradual slope: it attenuates 55 to 75 Hz again.
    assert np.abs(twice - once).max() <= 0.05 * np.abs(once).max()


def test_fix_order_is_fixed_and_input_is_not_modified() -> None:
    clip = joined(pause(2), humming(MAN), pause(2))
    kept = clip.copy()
    forwards, backwards = apply(clip, RATE, list(Fix)), apply(clip, RATE, reversed(list(Fix)))
    assert np.array_equal(forwards, backwards)
    assert np.array_equal(clip, kept)
    assert apply(clip, RATE, []) is clip
    assert str(Fix("trim").label) == "Trim the silence"


def test_fixes_work_at_any_scale() -> None:
    clip = joined(pause(2), humming(MAN), pause(2))
    with np.errstate(all="raise", under="ignore"):
        for fix in Fix:
            scale = np.float32(1e37 if fix is not Fix.LEVEL else 1)
            large = apply(clip * np.float32(1e37), RATE, [fix])
            assert np.allclose(large / scale, apply(clip, RATE, [fix]), atol=1e-5)


def test_fixes_keep_every_word() -> None:
    spoken = examine(MAN, RATE).speech
    clip = joined(pause(2), MAN, pause(3), MAN, pause(2))
    repaired = apply(clip, RATE, [fix for fix in Fix if fix is not Fix.EXCERPT])
    again = examine(repaired, RATE).speech
    length = sum(end - start for start, end in spoken)
    assert sum(end - start for start, end in again) == pytest.approx(2 * length, rel=0.03)
    assert len(repaired) / RATE == pytest.approx(2 * len(MAN) / RATE + 0.6, abs=0.7)


@settings(max_examples=5, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["woman", "man"]), st.floats(0.15, 1.2)), min_size=1, max_size=3), st.booleans()
)
def test_best_stretch_is_within_the_clip_and_long_enough(turns: list[tuple[str, float]], noise: bool) -> None:
    said = {"woman": WOMAN[: 9 * RATE], "man": MAN[: 9 * RATE]}
    clip = joined(*(part for who, gap in turns for part in (said[who], pause(gap))))
    report = examine(noisy(clip, 20) if noise else clip, RATE)
    assert report.best is not None
    start, end = report.best
    assert 0 <= start < end <= report.duration
    assert 8 <= end - start <= 15


def test_best_stretch_leaves_out_cut_words_and_not_all_speech_up_to_a_pause() -> None:
    breathless = WOMAN[np.abs(signal.fftconvolve(np.abs(WOMAN), np.ones(800) / 800, "same")) > 0.01]
    clip = joined(beginning(MAN, 5.5), GAP, breathless, breathless[: len(breathless) // 2])
    report = examine(clip, RATE)
    assert found(report, "edges").what == "end"
    assert report.parts[Fix.EDGES][1] == pytest.approx(5.5, abs=1)
    assert report.best is not None
    assert report.best[1] < report.duration - 1


def test_no_best_stretch_is_offered_where_there_is_too_little_speech() -> None:
    """The label of the offer says 8 to 15 s."""
    little = MAN[: 6 * RATE]
    for clip in (joined(pause(1), little), joined(little, pause(26)), joined(WOMAN[: 6 * RATE], pause(10), little)):
        report = examine(clip, RATE)
        assert report.best is None
        assert found(report, "length").fix is None


def test_best_stretch_without_pauses_ends_at_quiet_places() -> None:
    breathless = joined(*[WOMAN[np.abs(signal.fftconvolve(np.abs(WOMAN), np.ones(800) / 800, "same")) > 0.01]] * 3)
    start, end = examine(breathless, RATE).best or (0, 0)
    assert 8 <= end - start <= 15
    level = np.sqrt(np.mean(breathless**2))
    for edge in (start, end):
        near = breathless[max(int((edge - 0.02) * RATE), 0) : int((edge + 0.02) * RATE)]
        assert np.sqrt(np.mean(near**2)) < level / 2


@pytest.mark.parametrize(("damaged", "at"), [("clipped", 0), ("noisy", 1), ("noisy", 2)])
def test_best_stretch_is_the_cleanest_part(damaged: str, at: int) -> None:
    part = WOMAN[: int(9.5 * RATE)]
    worse = clipped(part, 6) * np.abs(part).max() if damaged == "clipped" else noisy(part, 8)
    parts = [part if i == at else worse.astype(np.float32) for i in range(3)]
    clip = joined(*(piece for one in parts for piece in (one, noisy(GAP + np.float32(1e-9), -80))))
    start, end = examine(clip, RATE).best or (0, 0)
    length = (len(part) + len(GAP)) / RATE
    assert at * length - 0.4 < start
    assert end < (at + 1) * length + 0.4
    assert end - start >= 8


def test_fixed_clip_is_a_usable_reference() -> None:
    clip = repair(
        written(joined(pause(2), humming(MAN) * np.float32(0.01), pause(2))), [Fix.RUMBLE, Fix.TRIM, Fix.LEVEL]
    )
    prepared = prepare_reference(clip, 22_050)
    assert prepared.notes == ()
    assert prepared.used[0] < 0.3


def test_leveling_leaves_room_for_peaks() -> None:
    knock = at_loudness(MAN, -40)
    knock[RATE] = 0.9
    assert np.abs(apply(knock, RATE, [Fix.LEVEL])).max() == pytest.approx(10 ** (-1 / 20), rel=1e-3)
    assert clip_loudness(apply(at_loudness(MAN, -40), RATE, [Fix.LEVEL]), RATE) == pytest.approx(-20, abs=0.05)


def test_high_pass_removes_hum_and_keeps_voice() -> None:
    cleaned = apply(humming(MAN), RATE, [Fix.RUMBLE])
    reference = apply(MAN, RATE, [Fix.RUMBLE])
    assert np.sqrt(np.mean((cleaned - reference)[RATE:-RATE] ** 2)) < 0.01 * np.sqrt(np.mean(MAN**2))
    assert np.abs(cleaned - reference).max() < 0.3 * np.abs(humming(MAN) - MAN).max()  # at the ends too
    assert np.sqrt(np.mean((reference - MAN) ** 2)) < 0.1 * np.sqrt(np.mean(MAN**2))
