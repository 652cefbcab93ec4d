"""The bundled sample voices are short, small and distinct, and their texts can be spoken."""

import io
import json
from itertools import pairwise

import pytest
import soundfile

from benchmarks.judges import pitch
from engine.release.hub import BUNDLED
from engine.text.english.pronunciation import Lexicon
from engine.text.tokenizer import LEXICON_FILE
from storage.repositories.voices.shared_voices import SampleVoice
from storage.voices.sample_voices import INDEX, SAMPLES, read_sample_voices


@pytest.fixture(scope="module")
def samples() -> list[SampleVoice]:
    return read_sample_voices()


def test_six_small_samples_exist(samples: list[SampleVoice]) -> None:
    assert len({sample.voice.name for sample in samples}) == len(samples) == 6
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 1_500_000
    assert {path.name for path in SAMPLES.glob("*.voice")} == {
        entry["file"] for entry in json.loads((SAMPLES / INDEX).read_text("utf-8"))["voices"]
    }, "a file is missing from the index"


def test_each_sample_has_a_clip_and_transcript_of_suitable_length(samples: list[SampleVoice]) -> None:
    for sample in samples:
        (reference,) = sample.voice.references
        assert reference.sample_rate == 22_050
        assert 6 <= reference.duration <= 9
        assert len(reference.transcript.split()) >= 15
        assert sample.voice.name in reference.transcript, "the transcript contains the name"
        assert sample.voice.description
    assert len({sample.voice.codec_fingerprint for sample in samples}) == 1


def test_bundled_model_can_pronounce_all_sentences(samples: list[SampleVoice]) -> None:
    lexicon = Lexicon.load(BUNDLED / LEXICON_FILE)
    for sample in samples:
        assert lexicon.unpronounceable(f"{sample.demo} {sample.voice.references[0].transcript}") == []
    assert len({sample.demo for sample in samples}) == 6


def test_sample_pitches_are_far_apart(samples: list[SampleVoice]) -> None:
    pytest.importorskip("pyworld")
    heights = []
    for sample in samples:
        clip, rate = soundfile.read(io.BytesIO(sample.voice.references[0].clip), dtype="float32")
        heights.append(pitch.median(pitch.track(clip[rate : 2 * rate + rate // 2], rate)))
    heights.sort()
    assert heights[0] < 95
    assert heights[-1] > 225
    assert all(higher > 1.12 * lower for lower, higher in pairwise(heights))
