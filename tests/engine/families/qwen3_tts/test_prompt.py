"""Prompts of Qwen3-TTS: a voice that leaves no room for speech is told apart from a text that is too long."""

from dataclasses import replace

import pytest
import torch

from engine.errors import InvalidInput
from engine.families.family import PromptReference, PromptVoice
from engine.families.qwen3_tts.prompt import TalkerPrompts
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.families.qwen3_tts.tokenizer import TextTokenizer
from tests.engine.families.qwen3_tts.conftest import golden
from tests.paths import QWEN

WORDS = "The words of it. "


def cloned(transcript: str, frames: int) -> PromptVoice:
    codes = torch.zeros(4, frames, dtype=torch.long)
    return PromptVoice([PromptReference(transcript, codes, golden()["clip_embedding"])])


@pytest.mark.parametrize(
    "voice",
    [
        cloned(WORDS, 1000),
        cloned(WORDS, 958),  # with the columns before the clip
        cloned(WORDS * 200, 20),
        PromptVoice(description=WORDS * 300),
    ],
    ids=["clip", "clip and head", "transcript", "description"],
)
def test_a_voice_that_is_too_long_is_refused(release: Qwen3TTSRelease, voice: PromptVoice) -> None:
    with pytest.raises(InvalidInput) as caught:
        release.prompts.conversation(voice, 1024, 0).begin_turn("Hello.", 100)
    assert caught.value.message.key == "voices.too_long"


@pytest.mark.parametrize("voice", [cloned(WORDS, 900), cloned("", 2000), PromptVoice(description=WORDS)])
def test_a_text_that_is_too_long_is_refused(release: Qwen3TTSRelease, voice: PromptVoice) -> None:
    """A clip without a transcript is not in the prompt, whatever its length."""
    conversation = release.prompts.conversation(voice, 1024, 0)
    assert conversation.begin_turn("Hello.", 20)[1] == 20
    with pytest.raises(InvalidInput) as caught:
        conversation.begin_turn(WORDS * 400, 20)
    assert caught.value.message.key == "text.long_turn"


def test_texts_contain_none_of_the_models_own_tokens(release: Qwen3TTSRelease) -> None:
    def prompt(text: str, transcript: str, description: str) -> list[list[int]]:
        voice = replace(cloned(transcript, 20), description=description)
        built, _ = release.prompts.conversation(voice, 1024, 0).begin_turn(text, 20)
        return built.columns.tolist()

    unclean, clean = (f"Yes{between}no." for between in ("<tts_text_eod>", " "))
    assert prompt(unclean, unclean, unclean) == prompt(clean, clean, clean)


@pytest.mark.parametrize(
    ("transcript", "ended"),
    [
        ("The words of it", "The words of it."),
        ("The words of it, ", "The words of it."),
        ("その言葉、", "その言葉。"),
        ("言葉", "言葉。"),
        ("「言葉」", "「言葉」。"),
        ("Is it? —", "Is it?"),
    ],
)
def test_transcript_and_text_are_separate_sentences(release: Qwen3TTSRelease, transcript: str, ended: str) -> None:
    """The text follows the transcript without a space."""

    def prompt(voice: PromptVoice) -> torch.Tensor:
        return release.prompts.conversation(voice, 1024, 0).begin_turn("Hello.", 20)[0].columns

    assert torch.equal(prompt(cloned(transcript, 20)), prompt(cloned(ended, 20)))


def test_style_tags_are_not_read(release: Qwen3TTSRelease) -> None:
    def prompt(text: str, transcript: str, prompts: TalkerPrompts = release.prompts) -> list[list[int]]:
        built, _ = prompts.conversation(cloned(transcript, 20), 1024, 0).begin_turn(text, 20)
        columns: list[list[int]] = built.columns.tolist()
        return columns

    plain = prompt("Hello. No, no.", WORDS)
    assert prompt("[laugh] Hello.[1] No, [sigh] no. [laugh]", f"[low voice]{WORDS}[laugh]") == plain
    trained = TalkerPrompts(release.architecture.config, TextTokenizer(QWEN), style_tags=True)
    assert prompt("[laugh] Hello. No, no.", WORDS, trained) != plain
    styled = replace(cloned(WORDS, 20), style="[sad]")
    assert trained.conversation(styled, 1024, 0).begin_turn("Hello. No, no.", 20)[0].columns.tolist() == prompt(
        "[sad] Hello. [sad] No, no.", WORDS, trained
    )
