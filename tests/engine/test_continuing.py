"""A speech continues from segments that another engine has spoken."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from engine import Engine, SpeakOptions
from engine.errors import InvalidCodes, InvalidInput
from engine.families.family import Alignment
from engine.families.s2.alignment import AttentionAligner
from engine.models.prompt import Prompt
from engine.outputs import AudioChunk, SegmentResult, SpokenSegment
from engine.text import Segment
from storage.voices.sample_voices import read_sample_voices

TEXT = "Go out. No."


def assert_same_sound(one: list[AudioChunk], other: list[AudioChunk]) -> None:
    """Assert that chunks hold the same sound, up to rounding, which the postfilter makes larger."""
    first, second = (np.concatenate([chunk.samples for chunk in each]) for each in (one, other))
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_continued_speech_has_the_same_codes_and_samples(bundled_engine: Engine) -> None:
    voice = read_sample_voices()[0].voice
    heard = list(whole := bundled_engine.speak(TEXT, voice, SpeakOptions(seed=7)))
    assert whole.result is not None
    assert [segment.result for segment in whole.spoken] == list(whole.result.segments)
    begun = whole.spoken[:-1]
    assert begun
    rest = bundled_engine.speak(TEXT, voice, SpeakOptions(seed=7), spoken=begun)
    chunks = list(rest)
    silence, sound = [chunk for chunk in heard if chunk.segment == len(begun)][:2]  # between two sentences
    assert (chunks[0].start, len(chunks[0].samples)) == (silence.start, len(silence.samples))
    assert chunks[1].start == sound.start
    assert {chunk.segment for chunk in chunks} == {len(begun)}
    assert rest.result is not None
    assert rest.result.segments == whole.result.segments
    assert (rest.result.frames, rest.result.stop_reason) == (whole.result.frames, whole.result.stop_reason)
    for one, other in zip(rest.spoken, whole.spoken, strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)
    sounds = [chunk for chunk in heard if chunk.start >= chunks[0].start]
    assert_same_sound(chunks, sounds)


def test_speech_after_a_repetition_does_not_depend_on_what_was_cut_off(
    bundled_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codec has also decoded the repetition."""
    segments = [Segment("Go."), Segment("No.")]
    voice, options = read_sample_voices()[0].voice, SpeakOptions(seed=7)
    align = AttentionAligner.align

    def cut(self: AttentionAligner, prompt: Prompt, text: str, codes: Tensor) -> Alignment:
        found = align(self, prompt, text, codes)
        return replace(found, frames=4) if text == segments[0].text else found

    monkeypatch.setattr(AttentionAligner, "align", cut)
    heard = list(whole := bundled_engine.speak(segments, voice, options))
    assert whole.spoken[0].result.frames == 4
    rest = list(bundled_engine.speak(segments, voice, options, spoken=whole.spoken[:1]))
    after = [chunk for chunk in heard if chunk.segment == 1]
    assert_same_sound(rest, after)


def test_growing_text_cannot_be_continued(bundled_engine: Engine) -> None:
    spoken = (SpokenSegment(SegmentResult("Hi.", "end", 1, 1), np.zeros((8, 1), np.int64)),)
    with pytest.raises(TypeError, match="segments"):
        bundled_engine.speak(bundled_engine.growing_text(), spoken=spoken)


def test_more_spoken_segments_than_the_text_has_are_refused(bundled_engine: Engine) -> None:
    spoken = [SpokenSegment(SegmentResult(text, "end", 1, 1), np.zeros((9, 1), np.int64)) for text in ("Hi.", "No.")]
    with pytest.raises(InvalidInput, match="2 segments are already spoken, but the text has only 1"):
        bundled_engine.speak([Segment("Hi.")], spoken=spoken)


@pytest.mark.parametrize("kind", ["a codebook less", "no frames", "beyond a codebook", "negative"])
def test_spoken_segments_with_codes_of_another_codec_are_refused(bundled_engine: Engine, kind: str) -> None:
    sizes = bundled_engine._codec_config.codebook_sizes
    codes = np.zeros((len(sizes), 3), np.int64)
    changed = {
        "a codebook less": codes[1:],
        "no frames": codes[:, 0],
        "beyond a codebook": codes + np.where(np.arange(3) == 2, sizes[-1], 0),
        "negative": codes - 1,
    }[kind]
    spoken = [SpokenSegment(SegmentResult("Hi.", "end", 3, 1), changed)]
    with pytest.raises(InvalidCodes, match="already spoken"):
        bundled_engine.speak([Segment("Hi."), Segment("No.")], spoken=spoken)


@pytest.fixture(params=["fp32", "bf16"])
def engine(request: pytest.FixtureRequest, bundled_engine: Engine) -> Iterator[Engine]:
    """The bundled model, with codes that do not depend on rounding and with codes that do."""
    if request.param == "fp32":
        yield bundled_engine
        return
    with closing(Engine.load("bundled", "cpu", precision=request.param, graphs="off", slots=1)) as loaded:
        yield loaded


def test_following_segment_prefills_only_its_own_text(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot already holds the voice, and the text and frames of the previous segment."""
    begun: list[tuple[Prompt, int]] = []
    usual = engine._runner.begin

    def begin(slot: int, prompt: Prompt, *more: Any) -> int:
        reused = usual(slot, prompt, *more)
        begun.append((prompt, reused))
        return reused

    monkeypatch.setattr(engine._runner, "begin", begin)
    speech = engine.speak(TEXT, read_sample_voices()[0].voice, SpeakOptions(seed=7))
    for _ in speech:
        pass
    assert speech.result is not None
    assert [segment.attempts for segment in speech.result.segments] == [1] * len(begun)
    for (before, _), (_prompt, reused), segment in zip(begun, begun[1:], speech.result.segments, strict=False):
        assert reused == before.columns.shape[1] + segment.frames


def test_continuing_a_finished_speech_ends_at_once(bundled_engine: Engine) -> None:
    whole = bundled_engine.speak("Hello there.", None, SpeakOptions(seed=7))
    for _ in whole:
        pass
    again = bundled_engine.speak("Hello there.", None, SpeakOptions(seed=7), spoken=whole.spoken)
    assert list(again) == []
    assert whole.result is not None
    assert again.result is not None
    assert again.result.segments == whole.result.segments
