"""Prompts, logits, greedy frames, codes, audio and speaker embeddings equal those of the public package."""

import io
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from engine import Engine, SpeakOptions, Voice
from engine.families.family import PromptReference, PromptVoice
from engine.families.qwen3_tts.release import Qwen3TTSRelease, TalkerModel
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.traces import TorchScriptCapture
from engine.voice import Reference
from tests.engine.families.qwen3_tts.conftest import CPU, cases, golden
from tests.paths import QWEN

TRANSCRIPT = "The words of it."
Releases = dict[str, Qwen3TTSRelease]


def kind_of(case: dict[str, Any]) -> str:
    return "custom_voice" if "speaker" in case else "voice_design" if case["instruct"] else "base"


def voice_of(case: dict[str, Any]) -> PromptVoice:
    references = []
    if kind_of(case) == "base":
        transcript = "" if case["name"] == "embedding" else TRANSCRIPT
        references = [PromptReference(transcript, golden()["clip_codes"], golden()["clip_embedding"])]
    language = case.get("language", "").lower()
    return PromptVoice(references, case.get("speaker", "").lower(), case["instruct"], language)


def prompt_of(case: dict[str, Any], releases: Releases) -> Prompt:
    conversation = releases[kind_of(case)].prompts.conversation(voice_of(case), 1024, 0)
    return conversation.begin_turn(case["text"], 100)[0]


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
@torch.inference_mode()
def test_prompt_matches_package(case: dict[str, Any], releases: Releases, model: TalkerModel) -> None:
    tensors, name = golden(), case["name"]
    ids = releases["base"].prompts._tokenizer.encode(
        f"<|im_start|>assistant\n{case['text']}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids == tensors[f"{name}.input_ids"].tolist()
    prompt = prompt_of(case, releases)
    assert_close(model.slow.embed(prompt.columns[None], prompt.embedding)[0], tensors[f"{name}.prompt"])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
@torch.inference_mode()
def test_logits_match_package(case: dict[str, Any], releases: Releases, model: TalkerModel) -> None:
    """Compare teacher-forced logits of the talker for each frame, and of the predictor for each residual codebook."""
    tensors, name = golden(), case["name"]
    codes, prompt = tensors[f"{name}.codes"], prompt_of(case, releases)
    columns = [prompt.columns, model.slow.next_column(codes[:, :-1].T).T]
    normed = model.slow.norm(model.slow.run(model.slow.embed(torch.cat(columns, dim=1)[None], prompt.embedding)))
    last = normed[0, prompt.columns.shape[1] - 1 :]
    expected, config = tensors[f"{name}.logits"], releases["base"].architecture.config
    heads = [*range(config.semantic_codebook_size), config.control_tokens.end]
    assert_close(model.slow.logits(last), expected[:, heads])
    assert_close(model.fast.logits(last, codes.T), tensors[f"{name}.residual"])


@pytest.mark.parametrize(
    ("captured", "text_on_host"),
    [(False, False), (True, False), (False, True), (True, True)],
    ids=["eager", "captured", "eager-text_on_host", "captured-text_on_host"],
)
def test_greedy_frames_equal_package(
    request: pytest.FixtureRequest, releases: Releases, captured: bool, text_on_host: bool
) -> None:
    """Cases run in one batch; the step includes penalties and residual codes."""
    model = request.getfixturevalue("model_with_text_on_host" if text_on_host else "model")
    tensors, spoken = golden(), cases()[1::2] if captured else cases()  # a graph is captured for each batch size
    runner = ModelRunner(
        model,
        64,
        slots=len(spoken),
        positions=256,
        prefixes=PrefixCache(CPU, 1 << 20, 0),
        capture=TorchScriptCapture() if captured else None,
        mode="frame" if captured else "off",
    )
    while captured and runner.capture_next():
        pass
    assert runner.graph_state.startswith("frame" if captured else "off")
    for slot, case in enumerate(spoken):
        runner.begin(slot, prompt_of(case, releases), SamplingOptions(temperature=0, top_k=50), key=slot)
        while not runner.prefill([slot]):
            pass
    frames = np.stack([runner.step(range(len(spoken))).frames() for _ in range(12)], axis=-1)
    for slot, case in enumerate(spoken):
        np.testing.assert_array_equal(frames[slot, 1:], tensors[f"{case['name']}.codes"].numpy(), case["name"])


def test_codes_of_a_clip_equal_package(release: Qwen3TTSRelease) -> None:
    clip, part = golden()["clip"], golden()["clip"][:22_000]
    assert len(clip) % release.architecture.codec.frame_length == 0
    assert len(part) % release.architecture.codec.frame_length > 0
    encoder = release.load_encoder(CPU)
    assert torch.equal(encoder.encode(clip[None, None])[0], golden()["clip_codes"])
    assert torch.equal(encoder.encode(part[None, None])[0], golden()["part_codes"])


def test_audio_of_codes_matches_package(release: Qwen3TTSRelease) -> None:
    audio = release.load_decoder(CPU).decode(golden()["decoder_codes"][None])[0, 0]
    assert_close(audio, golden()["decoder_audio"])
    assert audio.abs().max() > 0.05


@pytest.mark.parametrize("name", ["clone", "clone_long", "embedding"])
def test_cloned_speech_matches_package(name: str) -> None:
    """Greedy speech matches from its first sample, because the codec continues from the end of the clip."""
    case = next(case for case in cases() if case["name"] == name)
    clip = golden()["clip"].numpy()
    flac = io.BytesIO()
    soundfile.write(flac, clip, 24_000, format="FLAC")
    transcript = "" if name == "embedding" else TRANSCRIPT
    reference = Reference(transcript, golden()["clip_codes"].numpy(), flac.getvalue(), 24_000, len(clip) / 24_000)
    engine = Engine.load(QWEN, "cpu", slots=1)
    try:
        voice = Voice("Slt", (reference,), engine.info.codec_fingerprint)
        expected, heard = golden()[f"{name}.audio"], np.zeros(0, np.float32)
        for _ in range(2):  # the second time, the codec's state is cached
            options = SpeakOptions(0, 1.0, 50, language=case.get("language", ""))
            with closing(engine.speak(case["text"], voice, options)) as speech:
                for chunk in speech:
                    heard = np.concatenate((heard[: chunk.start], chunk.samples))
                    if len(heard) >= len(expected):
                        break
            assert_close(torch.from_numpy(heard[: len(expected)]), expected)
    finally:
        engine.close()


def test_speaker_embedding_matches_package(release: Qwen3TTSRelease) -> None:
    encoder = release.load_speaker_encoder(CPU)
    assert encoder is not None
    assert_close(encoder.embed(golden()["clip"]), golden()["clip_embedding"])
