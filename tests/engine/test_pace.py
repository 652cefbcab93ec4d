"""The pace of the bundled model: no sample voice is too fast, and takes too short for their words are reported."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine import Engine
from engine.codec.codec import CodecDecoder, DecoderState
from engine.options import SpeakOptions
from engine.outputs import SpeechResult
from engine.text import frame_minimum
from engine.voice import Voice
from tests.paths import ROOT

pytestmark = pytest.mark.slow

VOICES = [Voice.from_bytes(path.read_bytes()) for path in sorted((ROOT / "assets" / "samples").glob("*.voice"))]
TEXTS = ("Yes.", "[whisper] It's 1,000,000!", "Eight words can be said in good time.")


@pytest.fixture
def engine(bundled_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The bundled model, whose frames are counted and become silence: to decode them takes longer than to draw them."""

    def silence(decoder: CodecDecoder, codes: Tensor, state: DecoderState) -> Tensor:
        return torch.zeros(len(codes), 1, codes.shape[2] * decoder.config.frame_length)

    monkeypatch.setattr(CodecDecoder, "decode_step", silence)
    yield bundled_engine
    for voice in VOICES:
        bundled_engine.forget(voice)  # it has learned from silence


def results(engine: Engine, requests: list[tuple[Voice, str]]) -> list[SpeechResult]:
    """Speak each text in its voice, several at a time."""
    options = SpeakOptions(temperature=engine.info.default_options.temperature, seed=1)

    def speak(requests: tuple[Voice, str]) -> SpeechResult:
        for _ in (speech := engine.speak(requests[1], requests[0], options)):
            pass
        assert speech.result is not None
        return speech.result

    with ThreadPoolExecutor(engine.info.slots) as pool:
        return list(pool.map(speak, requests))


def test_sample_voices_are_not_too_fast(engine: Engine) -> None:
    """Each voice speaks the shortest text, and two of them a longer one."""
    longer = zip(VOICES[:2], TEXTS[1:], strict=True)
    spoken = results(engine, [*((voice, TEXTS[0]) for voice in VOICES), *longer])
    assert len(spoken) == 8
    assert {result.stop_reason for result in spoken} == {"end"}
    assert {segment.attempts for result in spoken for segment in result.segments} == {1}


def test_wrong_transcript_ends_normally_only_with_enough_frames(engine: Engine) -> None:
    def transcribed(voice: Voice, transcript: str) -> Voice:
        return replace(voice, references=tuple(replace(each, transcript=transcript) for each in voice.references))

    wrong = [transcribed(VOICES[0], "Yes."), transcribed(VOICES[1], "Far more words than the clip can hold. " * 6)]
    prompts, rate = engine._pipeline.prompts, engine.info.frame_rate
    for result in results(engine, [(voice, "Three words here.") for voice in wrong]):
        for segment in result.segments:
            fits = segment.frames >= frame_minimum(segment.text, rate, prompts.count_phones(segment.text))
            assert segment.stop_reason in (("end", "length") if fits else ("short",))
