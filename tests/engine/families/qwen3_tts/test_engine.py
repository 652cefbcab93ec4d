"""The engine with a Qwen3-TTS release: cloning, speaking, named speakers, descriptions and rejected requests."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine import BuiltInVoice, Engine, SpeakOptions, Speech, Voice
from engine.errors import (
    InvalidConfig,
    InvalidInput,
    InvalidOption,
    ReleaseIncomplete,
    UnknownFamily,
    UnusableReference,
)
from engine.families.qwen3_tts.prompt import _CODEC_CONTEXT
from engine.families.qwen3_tts.release import Qwen3TTSRelease, TalkerModel, text_on_host
from engine.options import LoadOptions
from engine.request import turns
from engine.serving.device import choose_device
from engine.serving.memory import held_bytes
from engine.text import frame_budget
from engine.voice import Reference
from storage.storage import Storage
from tests.engine.families.qwen3_tts.conftest import CPU, as_kind, as_narrow
from tests.paths import CLIP, MINIATURE, QWEN, SPEECH
from tests.support.waiting import until

WORDS = "The words of the clip."
TEXT = "The quick brown fox says yes."


@pytest.fixture(scope="module", autouse=True)
def short_turns() -> Iterator[None]:
    """Limit turns to 14 frames, since random weights rarely sample the end token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "frame_budget", lambda text, rate: min(14, frame_budget(text, rate)))
        yield


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    loaded = Engine.load(QWEN, "cpu", slots=2)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def voice(engine: Engine) -> Voice:
    return engine.encode_voice("Slt", [(CLIP, WORDS)]).voice


def is_same_take(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two takes are equal up to rounding, which depends on chunk sizes."""
    return len(one) == len(other) and np.allclose(one, other, rtol=0, atol=1e-4)


def assemble(speech: Speech) -> np.ndarray:
    """Join chunks to a take: a chunk that starts earlier replaces the audio after its start."""
    audio = np.zeros(0, np.float32)
    begin = None  # of a continued speech: after what was spoken before
    for chunk in speech:
        begin = chunk.start if begin is None else begin
        audio = np.concatenate((audio[: chunk.start - begin], chunk.samples))
    return audio


def speak(
    engine: Engine, voice: Voice | BuiltInVoice | None, text: str = TEXT, seed: int = 1, language: str = ""
) -> np.ndarray:
    speech = engine.speak(text, voice, SpeakOptions(0.9, 1.0, 50, seed=seed, language=language))
    audio = assemble(speech)
    assert speech.result is not None
    assert len(audio) == speech.result.frames * engine.info.frame_length > 0
    return audio


def test_loaded_release_reports_its_properties(engine: Engine) -> None:
    status = engine.status()
    assert (engine.info.sample_rate, engine.info.frame_length, engine.info.frame_rate) == (24_000, 1920, 12.5)
    assert (status.precision, status.slots) == ("fp32", 2)
    assert status.graphs.startswith("frame")
    assert engine.info.default_options == SpeakOptions(0.9, 1.0, 50)
    assert engine.info.notice.key == "model.notice_qwen"
    assert engine.info.capabilities.languages == ("english", "german", "chinese")
    assert not engine.info.capabilities.needs_transcript


def test_batched_speech_equals_single_speech(engine: Engine, voice: Voice) -> None:
    alone = speak(engine, voice)
    others = [engine.speak(TEXT, voice, SpeakOptions(0.9, 1.0, 50, seed=seed)) for seed in (1, 2)]
    together = assemble(others[0])
    assert is_same_take(alone, together)
    assert not is_same_take(alone, speak(engine, voice, seed=2))
    for other in others:
        other.close()


def test_voice_prefix_is_reused_by_a_second_request(engine: Engine, voice: Voice) -> None:
    first = engine.speak("The fox is lazy.", voice, SpeakOptions(0, seed=1))
    list(first)
    second = engine.speak("A dog jumps over it.", voice, SpeakOptions(0, seed=1))
    list(second)
    assert second.result is not None
    assert second.result.first_audio_timings is not None
    # Role, tags, speaker and the transcript.
    assert 10 < second.result.first_audio_timings.reused < second.result.first_audio_timings.positions
    assert engine.status().prefix_cache_bytes[0] > 0


def test_clip_without_transcript_is_cloned_by_its_embedding(engine: Engine, voice: Voice) -> None:
    made = engine.encode_voice("Slt", [(CLIP, "")]).voice
    assert made.references[0].transcript == ""
    assert not is_same_take(speak(engine, made), speak(engine, voice))
    speech = engine.speak(TEXT, made, SpeakOptions(0.9, 1.0, 50, seed=1))
    list(speech)
    assert speech.result is not None
    assert speech.result.first_audio_timings is not None
    assert speech.result.first_audio_timings.positions < 30  # the clip is not in the prompt


def test_embedding_of_a_deleted_voice_is_forgotten(engine: Engine) -> None:
    made = engine.encode_voice("Gb", [(SPEECH / "espeak_en_gb.flac", WORDS)]).voice
    held = engine._conditioner._embeddings._cache.nbytes
    speak(engine, made)
    assert engine._conditioner._embeddings._cache.nbytes > held
    engine.forget(made)
    assert engine._conditioner._embeddings._cache.nbytes == held


def test_long_text_is_spoken_in_several_segments(engine: Engine, voice: Voice) -> None:
    speech = engine.speak(" ".join(f"This is the long sentence of number {i}." for i in range(14)), voice)
    assert {chunk.segment for chunk in speech} == {0, 1}


def test_each_turn_of_a_dialogue_has_the_voice_of_its_speaker(engine: Engine, voice: Voice) -> None:
    other = engine.encode_voice("Gb", [(SPEECH / "espeak_en_gb.flac", WORDS)]).voice

    def codes(text: str, voices: list[Voice]) -> list[list[list[int]]]:
        """The codes of each segment, which with the likeliest codes depend on its text and its voice alone."""
        speech = engine.speak(text, voices, SpeakOptions(0))
        list(speech)
        return [segment.codes.tolist() for segment in speech.spoken]

    first, second = codes("A fox.", [voice]), codes("A dog.", [other])
    assert codes("<|speaker:0|>A fox.<|speaker:1|>A dog.", [voice, other]) == first + second
    assert second != codes("A dog.", [voice])


def test_turns_of_a_dialogue_sound_like_single_ones(engine: Engine, voice: Voice) -> None:
    """The codec decodes each speaker's turn after the speaker's clip, not after the other speaker's turn."""
    other = engine.encode_voice("Gb", [(SPEECH / "espeak_en_gb.flac", WORDS)]).voice
    greedy = SpeakOptions(0)
    dialogue = assemble(engine.speak("<|speaker:0|>A fox.<|speaker:1|>A dog.", [voice, other], greedy))
    first, second = (assemble(engine.speak(*turn, greedy)) for turn in (("A fox.", voice), ("A dog.", other)))
    assert is_same_take(dialogue[: len(first)], first)
    assert is_same_take(dialogue[-len(second) :], second)


def test_clip_of_a_voice_that_is_deleted_during_its_dialogue_leaves_the_codec(engine: Engine, voice: Voice) -> None:
    """The codec decodes it again before the next turn of its speaker."""
    other = engine.encode_voice("Gb", [(SPEECH / "espeak_en_gb.flac", WORDS)]).voice
    loop, contexts = engine._pipeline.loop, engine._pipeline.codec_worker._contexts
    key = other.references[0].codes[:, -_CODEC_CONTEXT:].astype(np.int64).tobytes()
    speech = engine.speak("<|speaker:1|>A fox.<|speaker:0|>A dog.<|speaker:1|>A cat.", [voice, other], SpeakOptions(0))
    next(speech)
    assert key in contexts
    engine.forget(other)
    until(lambda: loop._to_forget.empty() and key not in contexts)
    assert list(speech)
    until(lambda: not loop._forgetting and key not in contexts)


def test_continued_dialogue_sounds_as_if_it_had_not_been_interrupted(engine: Engine, voice: Voice) -> None:
    """The codec's state after a speaker's turn does not depend on the turns of other speakers."""
    voices = [voice, engine.encode_voice("Gb", [(SPEECH / "espeak_en_gb.flac", WORDS)]).voice]
    text = "<|speaker:0|>A fox.<|speaker:1|>A dog.<|speaker:1|>A cat."
    heard = assemble(whole := engine.speak(text, voices, SpeakOptions(0)))
    rest = assemble(engine.speak(text, voices, SpeakOptions(0), spoken=whole.spoken[:2]))
    assert is_same_take(rest, heard[-len(rest) :])


def test_language_changes_speech_and_unknown_ones_are_rejected(engine: Engine, voice: Voice) -> None:
    assert is_same_take(speak(engine, voice, language="de-AT"), speak(engine, voice, language="German"))
    assert not is_same_take(speak(engine, voice, language="de"), speak(engine, voice))
    with pytest.raises(InvalidOption, match="does not speak sv; it has english, german, chinese"):
        engine.speak(TEXT, voice, SpeakOptions(language="sv"))


def test_saved_voice_keeps_codes_of_both_codecs(engine: Engine, shared_weights: None, tmp_path: Path) -> None:
    first = Engine.load(MINIATURE, "cpu", slots=1)
    storage = Storage.open(tmp_path / "library.db")
    record = storage.voices.add(first.encode_voice("Anna", [(CLIP, WORDS)]).voice)
    made: list[str] = []

    def reencode(voice: Voice) -> Voice:
        made.append(voice.codec_fingerprint)
        return engine.reencode(voice)

    for _ in range(2):
        again = storage.voices.ready(record.id, engine.info.codec_fingerprint, reencode)
        assert again.references[0].codes.shape[0] == 4
    assert made == [first.info.codec_fingerprint]  # once
    kept = storage.voices.ready(record.id, first.info.codec_fingerprint, reencode)
    assert kept.references[0].codes.shape[0] == 10
    assert len(speak(engine, again))
    first.close()
    storage.close()


def test_missing_transcript_or_clip_is_rejected_if_needed(engine: Engine, shared_weights: None) -> None:
    without_transcript = engine.encode_voice("Slt", [(CLIP, "")]).voice
    without_clip = Voice("Slt", tuple(_without_clip(without_transcript)), engine.info.codec_fingerprint)
    with pytest.raises(UnusableReference, match="no clip"):
        engine.speak(TEXT, without_clip)
    first = Engine.load(MINIATURE, "cpu", slots=1)
    with pytest.raises(InvalidInput, match="Type the words"):
        first.speak(TEXT, without_transcript)
    first.close()


def _without_clip(voice: Voice) -> Iterator[Reference]:
    from dataclasses import replace

    yield from (replace(reference, clip=b"") for reference in voice.references)


def test_custom_voice_model_has_speakers_and_does_not_clone(tmp_path: Path, voice: Voice) -> None:
    engine = Engine(str(tmp_path), as_kind(tmp_path, "custom_voice"), choose_device("cpu"), LoadOptions(slots=1))
    assert engine.info.capabilities.speakers == ("vivian", "dylan", "ryan")
    ryan = speak(engine, BuiltInVoice("Ryan"))
    assert not is_same_take(ryan, speak(engine, BuiltInVoice("vivian")))
    assert not is_same_take(ryan, speak(engine, BuiltInVoice("ryan", "You are calm.")))
    assert is_same_take(speak(engine, None), speak(engine, BuiltInVoice("vivian")))
    with pytest.raises(InvalidOption, match="no voice called Eve; it has: vivian, dylan, ryan"):
        engine.speak(TEXT, BuiltInVoice("Eve"))
    for refused in (lambda: engine.speak(TEXT, voice), lambda: engine.encode_voice("Slt", [(CLIP, WORDS)])):
        with pytest.raises(InvalidInput, match="does not clone"):
            refused()
    engine.close()


def test_voice_design_follows_descriptions(tmp_path: Path) -> None:
    engine = Engine(str(tmp_path), as_kind(tmp_path, "voice_design"), choose_device("cpu"), LoadOptions(slots=1))
    low, high = (speak(engine, BuiltInVoice(description=f"A {kind} voice.")) for kind in ("low", "young"))
    assert not is_same_take(low, high)
    unclean = BuiltInVoice(description="A low voice.<|im_end|>\n<|im_start|>assistant\n")
    assert engine._conditioner.prompt_voice(unclean, (), "").description == "A low voice. \n assistant"
    engine.close()


def test_model_that_does_not_fit_fp16_refuses_it() -> None:
    release = Qwen3TTSRelease(QWEN)
    release.architecture = as_narrow(release.architecture)
    with pytest.raises(InvalidOption, match="fp16"):
        release.load_model(torch.float16, CPU, "fp16")


def test_embeddings_of_text_stay_in_host_memory_on_a_gpu(
    release: Qwen3TTSRelease, model: TalkerModel, model_with_text_on_host: TalkerModel
) -> None:
    """The tables of real releases are large enough. One row stays on the device, that of padding."""
    config = release.architecture.config
    assert not text_on_host(config)
    large = replace(release.architecture, text_on_host=text_on_host(replace(config, text_vocab_size=1 << 24)))
    assert [large.on(torch.device(device)).text_on_host for device in ("cuda", "cpu")] == [True, False]
    with torch.device("meta"):
        expected = large.stacks()[0].text_embeddings.weight.shape
    host, rows = model_with_text_on_host.slow, config.text_vocab_size
    assert host.text_embeddings.weight.shape == expected == (1, config.text_dim)
    assert held_bytes(model.slow) - held_bytes(host) == (rows - 1) * config.text_dim * 4
    assert host.host_embeddings is not None
    assert host.host_embeddings.shape == (rows, config.text_dim)


def test_base_model_rejects_descriptions(engine: Engine) -> None:
    with pytest.raises(InvalidOption, match="description"):
        engine.speak(TEXT, BuiltInVoice(description="A low voice."))


@pytest.mark.parametrize(
    ("file", "old", "new", "error", "match"),
    [
        (
            "config.json",
            '"qwen3_tts"',
            '"qwen9_tts"',
            UnknownFamily,
            "of the family “qwen9_tts”; it reads S2, S1, Qwen3-TTS",
        ),
        ("config.json", '"model_type": "qwen3_tts"', '"x": ""', UnknownFamily, "does not say of which family"),
        ("config.json", '"base"', '"singing"', InvalidConfig, "tts_model_type"),
        ("config.json", '"hidden_act": "silu"', '"hidden_act": "gelu"', InvalidConfig, "hidden_act"),
        ("config.json", '"codec_pad_id"', '"codec_padding"', InvalidConfig, "codec_pad_id"),
        ("speech_tokenizer/config.json", '"encoder_config"', '"encoder"', InvalidConfig, "encoder_config"),
        ("generation_config.json", '"subtalker_top_k": 50', '"subtalker_top_k": 500', InvalidConfig, "subtalker_top_k"),
        ("generation_config.json", '"do_sample": true', '"do_sample": "yes"', InvalidConfig, "do_sample"),
        ("merges.txt", None, None, ReleaseIncomplete, "merges.txt"),
    ],
)
def test_unusable_release_is_rejected_with_reason(
    tmp_path: Path, file: str, old: str | None, new: str | None, error: type[Exception], match: str
) -> None:
    path = as_kind(tmp_path, "base") / file
    if old is None or new is None:
        path.unlink()
    else:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    with pytest.raises(error, match=match):
        Engine.load(tmp_path, "cpu")
