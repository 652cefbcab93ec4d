"""The pace of the bundled model's takes: right voices are never too fast, and wrong ones are not said to be right."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine import Engine
from engine.engine import SpeakOptions
from engine.request import SpeechResult
from engine.text import frame_minimum
from engine.voice import Voice
from tests.paths import ROOT

pytestmark = pytest.mark.slow

VOICES = [Voice.from_bytes(path.read_bytes()) for path in sorted((ROOT / "assets" / "samples").glob("*.voice"))]
TEXTS = ("Yes.", "[whisper] It's 1,000,000!", "Twelve words make a sentence that a reader can say in time.")


def results(engine: Engine, asked: list[tuple[Voice, str]]) -> list[SpeechResult]:
    """Speak each text in its voice, several at once."""
    options = SpeakOptions(temperature=engine.default_options.temperature, seed=1)

    def speak(asked: tuple[Voice, str]) -> SpeechResult:
        for _ in (speech := engine.speak(asked[1], asked[0], options)):
            pass
        assert speech.result is not None
        return speech.result

    with ThreadPoolExecutor(engine.slots) as pool:
        return list(pool.map(speak, asked))


def test_no_sample_voice_is_too_fast(bundled_engine: Engine) -> None:
    """Each says the shortest text, and one of the longer ones."""
    spoken = results(
        bundled_engine, [(voice, text) for i, voice in enumerate(VOICES) for text in (TEXTS[0], TEXTS[1 + i % 2])]
    )
    assert len(spoken) == 12
    assert {result.stop_reason for result in spoken} == {"end"}
    assert {segment.attempts for result in spoken for segment in result.segments} == {1}


def test_with_a_wrong_transcript_the_end_is_said_only_where_the_words_fit(bundled_engine: Engine) -> None:
    def transcribed(voice: Voice, transcript: str) -> Voice:
        return replace(voice, references=tuple(replace(each, transcript=transcript) for each in voice.references))

    wrong = [transcribed(VOICES[0], "Yes."), transcribed(VOICES[1], "Far more words than the clip can hold. " * 12)]
    prompts, rate = bundled_engine._pipeline.prompts, bundled_engine.frame_rate
    for result in results(bundled_engine, [(voice, "Six words are quite enough here.") for voice in wrong]):
        for segment in result.segments:
            fits = segment.frames >= frame_minimum(segment.text, rate, prompts.count_phones(segment.text))
            assert segment.stop_reason in (("end", "length") if fits else ("short",))
