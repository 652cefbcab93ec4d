"""Forgetting a voice removes all its cached data from the engine."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.engine import Engine
from engine.families.s2.prompt import PromptBuilder
from engine.models.prompt import Prompt
from engine.options import SpeakOptions
from engine.outputs import AudioChunk
from engine.release.profile import Profile
from engine.voice import Voice
from storage.voices.sample_voices import read_sample_voices
from tests.paths import MINIATURE, SPEECH
from tests.support.waiting import until

# Longer than a prefill chunk: only whole chunks are cached.
TRANSCRIPT = "The words of the clip, which are many. " * 4


pytestmark = pytest.mark.usefixtures("short_turns")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    loaded = Engine.load(MINIATURE, "cpu", slots=2)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def voices(engine: Engine) -> tuple[Voice, Voice]:
    clips = ("flite_slt.flac", "espeak_en_gb.flac")
    one, other = (engine.encode_voice(clip, [(SPEECH / clip, f"{clip}. {TRANSCRIPT}")]).voice for clip in clips)
    return one, other


@pytest.fixture(scope="module")
def pair(voices: tuple[Voice, Voice]) -> tuple[Voice, Voice]:
    """Voices whose clips fit into one prompt."""
    one, other = (replace(voice, references=(replace(voice.references[0], transcript="Words."),)) for voice in voices)
    return one, other


def speak(engine: Engine, voice: Voice) -> np.ndarray:
    return joined(engine.speak("Hello.", voice, SpeakOptions(seed=1)))


def joined(chunks: Iterable[AudioChunk]) -> np.ndarray:
    """Join chunks to a take: a chunk that starts earlier replaces the audio after its start."""
    take = np.zeros(0, np.float32)
    for chunk in chunks:
        take = np.concatenate((take[: chunk.start], chunk.samples))
    return take


def system_columns(engine: Engine, *voices: Voice) -> Tensor:
    """Return the columns with which all prompts of these voices begin."""
    references = [engine._conditioner._prompt_reference(voice.references[0], voice.name) for voice in voices]
    prompts = engine._pipeline.prompts
    assert isinstance(prompts, PromptBuilder)
    return prompts.system(references)


def test_forgotten_voice_is_removed_from_slots_and_caches(engine: Engine, voices: tuple[Voice, Voice]) -> None:
    one, other = voices
    before = speak(engine, one)
    kept = engine.status().prefix_cache_bytes[0]
    speak(engine, other)
    both = engine.status().prefix_cache_bytes[0]
    assert both > kept > 0
    slots = engine._runner._slots
    (used,) = (place for place, held in enumerate(slots._prompts) if held.filled)
    assert engine._conditioner._encoder._cache.nbytes == sum(each.references[0].codes.nbytes for each in voices)
    engine.forget(one)
    until(lambda: engine.status().prefix_cache_bytes[0] == both - kept)
    held = [slot.prompt.columns for slot in slots._prompts]
    system = system_columns(engine, one)
    assert not any(torch.equal(columns[:, : system.shape[1]], system) for columns in held)
    assert engine._conditioner._encoder._cache.nbytes == other.references[0].codes.nbytes
    engine.forget(other)
    until(lambda: engine.status().prefix_cache_bytes[0] == 0)
    # Inactive rows write to the last position.
    until(lambda: not slots.cache.buffer[:, :, used, :, :-1].any())
    np.testing.assert_allclose(speak(engine, one), before, rtol=0, atol=1e-5)


def test_forgotten_voice_is_removed_from_dialogues(engine: Engine, pair: tuple[Voice, Voice]) -> None:
    """The prompt of several voices begins like that of none of them."""
    before = engine.status().prefix_cache_bytes[0]
    for _ in engine.speak("<|speaker:0|>Hello.<|speaker:1|>Yes.", pair, SpeakOptions(seed=1)):
        pass
    assert engine.status().prefix_cache_bytes[0] > before
    engine.forget(pair[1])
    until(lambda: engine.status().prefix_cache_bytes[0] == before)
    system = system_columns(engine, *pair)
    slots = engine._runner._slots
    # The slots follow the cache.
    until(lambda: not any(torch.equal(held.prompt.columns[:, : system.shape[1]], system) for held in slots._prompts))


def test_dialogues_of_many_voices_are_limited(
    engine: Engine, pair: tuple[Voice, Voice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dialogue beyond the limit has in the caches is dropped."""
    monkeypatch.setattr("engine.conditioning._MAX_DIALOGUES", 1)
    before = engine.status().prefix_cache_bytes[0]
    for both in (pair, pair[::-1]):
        for _ in engine.speak("<|speaker:0|>Hello.<|speaker:1|>Yes.", both, SpeakOptions(seed=1)):
            pass
    assert len(engine._conditioner._dialogues) == 1
    engine.forget(pair[0])
    until(lambda: engine.status().prefix_cache_bytes[0] == before)


@pytest.mark.parametrize("text", ["Hello.", "One sentence to say. And another one."])
def test_running_speech_of_a_forgotten_voice_finishes_uncached(
    engine: Engine, voices: tuple[Voice, Voice], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(engine, "_profile", Profile(max_segment_bytes=24))
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 12)  # random weights never sample the end token
    monkeypatch.setattr("engine.request.turns.ATTEMPTS", 1)
    whole = joined(engine.speak(text, voices[0], SpeakOptions(seed=1)))
    speech = engine.speak(text, voices[0], SpeakOptions(seed=1))
    first = next(speech)
    slots = engine._runner._slots
    used = [place for place, held in enumerate(slots._prompts) if held.filled]
    engine.forget(voices[0])
    np.testing.assert_allclose(joined([first, *speech]), whole, rtol=0, atol=1e-5)
    until(lambda: engine.status().prefix_cache_bytes[0] == 0)
    until(lambda: not any(held.filled for held in slots._prompts))
    assert not slots.cache.buffer[:, :, used, :, :-1].any()


def test_voice_is_not_forgotten_again_with_every_frame_of_others(
    engine: Engine, voices: tuple[Voice, Voice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forgotten at once, and once more when the open request has left: many voices would delay its frames."""
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 40)
    runner, loop, forgotten = engine._runner, engine._pipeline.loop, list[Prompt]()
    forget = runner.forget

    def count(prefix: Prompt, free: Sequence[int]) -> None:
        forgotten.append(prefix)
        forget(prefix, free)

    monkeypatch.setattr(runner, "forget", count)
    speech = engine.speak("Hello.", voices[1], SpeakOptions(seed=1))
    first = next(speech)
    engine.forget(voices[0])
    joined([first, *speech])
    until(lambda: loop._to_forget.empty() and not loop._forgetting)
    assert [prefix is forgotten[0] for prefix in forgotten] == [True, True]


def test_error_of_forgetting_ends_no_other_speech(
    engine: Engine, voices: tuple[Voice, Voice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the slot held is not reused, although its memory could not be cleared."""
    speak(engine, voices[0])
    slots = engine._runner._slots

    def fail(_slot: int) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(slots.cache, "clear", fail)
    engine.forget(voices[0])
    until(lambda: not any(held.filled for held in slots._prompts))
    assert speak(engine, voices[1]).any()
    assert engine.failure is None


def test_forgetting_unused_voice_does_nothing(engine: Engine, voices: tuple[Voice, Voice]) -> None:
    engine.forget(voices[1])
    engine.forget(voices[1])
    engine.forget(replace(voices[1], codec_fingerprint="another"))


def test_codes_are_forgotten_of_a_voice_that_cannot_be_prompted(engine: Engine, voices: tuple[Voice, Voice]) -> None:
    (reference,) = voices[0].references
    samples = torch.from_numpy(np.sin(np.arange(engine.info.sample_rate) / 20).astype(np.float32))
    held = engine._conditioner._encoder._cache.nbytes
    codes = engine._conditioner._encoder.encode(samples, b"a clip")
    wordless = replace(voices[0], references=(replace(reference, codes=codes, transcript=""),))
    engine.forget(wordless)
    assert engine._conditioner._encoder._cache.nbytes == held


def test_voice_with_codes_of_another_codec_can_be_forgotten(bundled_engine: Engine) -> None:
    """A voice file may contain any codes."""
    voice = read_sample_voices()[0].voice
    (reference,) = voice.references
    bundled_engine.forget(replace(voice, references=(replace(reference, codes=reference.codes[1:]),)))


def test_drop_where_removes_matching_values() -> None:
    cache: ByteLRU[str, int] = ByteLRU(100)
    for number, name in enumerate("abc"):
        cache.put(name, number, 10)
    cache.drop_where(lambda _, value: value > 0)
    assert (cache.get("a"), cache.get("b"), cache.nbytes) == (0, None, 10)
