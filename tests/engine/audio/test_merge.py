"""Several clips of one speaker are merged into one."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine.audio import prepare_reference
from engine.audio.clip_length import LONGEST_USED
from engine.audio.merge import MAX_MERGED_SECONDS, merge_references, merge_transcripts
from engine.errors import UnusableReference
from tests.paths import SPEECH

CLIPS = [SPEECH / "flite_slt.flac", SPEECH / "espeak_en_gb.flac"]
RATE = 22_050


def merged(*sources: Path | bytes) -> bytes:
    clip, _ = merge_references([(source, "") for source in sources], RATE)
    assert isinstance(clip, bytes)
    return clip


def level(samples: np.ndarray) -> float:
    blocks = samples[: len(samples) // 1024 * 1024].reshape(-1, 1024)
    powers = (blocks.astype(np.float64) ** 2).mean(axis=1)
    return float(10 * np.log10(powers[powers >= np.median(powers)].mean()))


def test_merged_clips_are_trimmed_and_equally_loud(tmp_path: Path) -> None:
    samples, rate = soundfile.read(CLIPS[1])
    quiet = tmp_path / "quiet.wav"
    soundfile.write(quiet, samples / 20, rate, subtype="FLOAT")
    joined, joined_rate = soundfile.read(io.BytesIO(merged(CLIPS[0], quiet.read_bytes())))
    first, second = (prepare_reference(clip, RATE).samples.numpy() for clip in CLIPS)
    assert joined_rate == RATE
    assert len(joined) == pytest.approx(len(first) + len(second), abs=RATE * 0.02)
    assert level(joined[: len(first)]) == pytest.approx(level(joined[len(first) :]), abs=0.5)
    np.testing.assert_array_equal(joined[: len(first)].astype(np.float32), first)


def test_merged_clip_of_maximum_length_is_used_whole(tmp_path: Path) -> None:
    """Preparing the merged clip again removes nothing from it."""
    clips = [SPEECH / "flite_slt_story.flac", SPEECH / "flite_rms_story.flac"]
    assert sum(soundfile.info(str(clip)).duration for clip in clips) < MAX_MERGED_SECONDS
    joined = merged(*clips)
    prepared = prepare_reference(joined, RATE)
    assert prepared.speech_kept == 1
    assert prepared.notes == ()
    assert prepared.duration == pytest.approx(soundfile.info(io.BytesIO(joined)).duration, abs=0.3)


def long_clip(sentences: int) -> bytes:
    """Return a clip that repeats one sentence of about 3 s."""
    samples, rate = soundfile.read(CLIPS[0])
    file = io.BytesIO()
    soundfile.write(file, np.tile(samples, sentences), rate, format="WAV")
    return file.getvalue()


def test_transcript_of_a_long_clip_is_cut_with_it() -> None:
    sentences = 1 + int(45 / soundfile.info(str(CLIPS[0])).duration)
    cut = prepare_reference(long_clip(sentences), RATE)
    assert cut.speech_kept < 1
    given: list[tuple[Path | bytes, str]] = [(CLIPS[1], "Hello."), (long_clip(sentences), "So it goes. " * sentences)]
    clip, transcript = merge_references(given, RATE)
    assert transcript == "Hello. " + " ".join(["So it goes."] * round(cut.speech_kept * sentences))
    assert prepare_reference(clip, RATE).duration <= LONGEST_USED


def test_clips_beyond_the_maximum_length_are_left_out() -> None:
    long = long_clip(int(26 / soundfile.info(str(CLIPS[0])).duration))
    references = [(long, f"Clip {number}.") for number in range(4)]
    clip, transcript = merge_references(references, RATE)
    assert (clip, transcript) == (merged(long, long), "Clip 0. Clip 1.")
    assert prepare_reference(clip, RATE).duration <= LONGEST_USED


def test_unusable_clip_cannot_be_merged() -> None:
    with pytest.raises(UnusableReference):
        merged(CLIPS[0], b"no sound")


def test_merged_transcripts_end_sentences_between_clips() -> None:
    assert merge_transcripts([" One two ", "Three!", "四。", "five?", "Six"]) == "One two. Three! 四。 five? Six."
    assert merge_transcripts(["Alone"]) == "Alone."


def test_references_are_merged_with_their_transcripts() -> None:
    assert merge_references([(CLIPS[0], "One")], RATE) == (CLIPS[0], "One")
    assert merge_references([(CLIPS[0], "One"), (CLIPS[1], "Two.")], RATE) == (merged(*CLIPS), "One. Two.")
    assert merge_references([(CLIPS[0], "One"), (CLIPS[1], "")], RATE) == (merged(*CLIPS), "")
