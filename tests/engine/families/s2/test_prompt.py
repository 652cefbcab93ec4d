"""Prompts and turns have the same token ids as those of the reference."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import InvalidCheckpoint, ReleaseIncomplete
from engine.families.family import MIN_SPEECH_FRAMES, PromptReference, PromptVoice
from engine.families.s2.dual_ar import DualAR
from engine.families.s2.prompt import _CLONING_TASK, InterleavedPromptBuilder, PromptBuilder
from engine.text.tokenizer import Tokenizer
from tests.engine.conftest import cases, golden
from tests.support.flat_release import flat_release

GOLDEN = golden("prompt")


@pytest.mark.parametrize("case", cases("prompt"), ids=lambda case: case["name"])
def test_prompt_equals_reference(miniature: DualAR, case: dict[str, Any]) -> None:
    builder = PromptBuilder(miniature.tokenizer, miniature.config.num_codebooks)
    pieces = [builder.system([PromptReference(text, GOLDEN[codes]) for text, codes in case["references"]])]
    for text, codes in case["turns"]:
        pieces.append(builder.user(text))
        if codes:
            pieces += [builder.frames(GOLDEN[codes]), builder.turn_end()]
    assert torch.equal(torch.cat(pieces, dim=1).int(), GOLDEN[f"prompt_{case['name']}"])


def test_transcript_with_speaker_tag_gets_no_second_tag(miniature: DualAR) -> None:
    builder = PromptBuilder(miniature.tokenizer, miniature.config.num_codebooks)
    codes = torch.zeros(miniature.config.num_codebooks, 1, dtype=torch.long)
    for transcript, prefix in (("Yes. <|speaker:3|>No.", ""), ("<|speaker:3|>No.", ""), ("No.", "<|speaker:0|>")):
        ids = builder.system([PromptReference(transcript, codes)])[0].tolist()
        before = miniature.tokenizer.encode(_CLONING_TASK)
        written = before + miniature.tokenizer.encode_speech(prefix + transcript)
        assert any(ids[at : at + len(written)] == written for at in range(len(ids))), transcript


def test_earlier_turns_leave_a_short_text_enough_positions(miniature: DualAR) -> None:
    """A text may need fewer frames than a prompt must leave free."""
    builder = PromptBuilder(miniature.tokenizer, miniature.config.num_codebooks)
    turns = builder.conversation(PromptVoice(), positions := 256, context_positions=positions)
    codes = torch.zeros(miniature.config.num_codebooks, 20, dtype=torch.long)
    for _ in range(8):
        prompt, frames = turns.begin_turn("Yes.", budget := 30)
        assert frames == budget
        assert prompt.columns.shape[1] + MIN_SPEECH_FRAMES <= positions
        turns.append("Yes.", codes)


def test_prompt_of_s1_is_interleaved(tmp_path: Path) -> None:
    """The layout of Fish Audio's S1 reference: its inference and independent ports of it agree."""
    for name, data in flat_release().items():
        (tmp_path / name).write_bytes(data)
    tokenizer = Tokenizer.load(tmp_path)
    builder = InterleavedPromptBuilder(tokenizer, 3)
    reference = PromptReference("Hi.", torch.tensor([[5, 6], [7, 8], [9, 10]]))
    voice = PromptVoice([reference])
    speaker, end = list(b"<|speaker:0|>"), 375
    semantic = [tokenizer.semantic_start_id + code for code in (5, 6)]
    conversation = builder.conversation(voice, 512, 256)
    prompt, _ = conversation.begin_turn("Yes?", 64)
    system = [377, *speaker, *b"Hi.", *semantic, end]
    assert prompt.columns[0].tolist() == [*system, *speaker, *b"Yes?"]
    assert prompt.columns[1:, len(system) - 3 : len(system) - 1].tolist() == reference.codes.tolist()
    assert prompt.columns[1:].count_nonzero() == reference.codes.numel()
    assert prompt.shared == len(system)
    assert builder.place_of("Yes?", prompt) == (len(prompt.columns[0]) - 4, 4)
    conversation.append("Yes?", reference.codes)
    second, _ = conversation.begin_turn("<|speaker:0|>No.", 64)
    turn = [*speaker, *b"Yes?", *semantic, end]
    assert second.columns[0].tolist() == [*system, *turn, *speaker, *b"No."]
    assert second.generated_ranges == ((len(prompt.columns[0]) - 1, len(prompt.columns[0]) + 2),)


def test_a_style_is_before_each_sentence_of_all_turns(miniature: DualAR) -> None:
    builder = PromptBuilder(miniature.tokenizer, miniature.config.num_codebooks)
    plain, styled = (builder.conversation(PromptVoice(style=style), 256, 128) for style in ("", "[sad]"))
    codes = torch.zeros(miniature.config.num_codebooks, 5, dtype=torch.long)
    for said, written in (("Yes. No.", "[sad] Yes. [sad] No."), ("Oh.", "[sad] Oh.")):
        assert torch.equal(styled.begin_turn(said, 30)[0].columns, plain.begin_turn(written, 30)[0].columns)
        styled.append(said, codes)
        plain.append(written, codes)


def test_style_tags_of_s1_are_in_parentheses(tmp_path: Path) -> None:
    for name, data in flat_release().items():
        (tmp_path / name).write_bytes(data)
    builder = InterleavedPromptBuilder(Tokenizer.load(tmp_path), 3)
    codes = torch.zeros(3, 2, dtype=torch.long)

    def prompt(tag: str) -> torch.Tensor:
        system = builder.system([PromptReference(f"Hi. {tag}", codes)])
        return torch.cat((system, builder.user(f"{tag} No! {tag}")), dim=1)

    assert torch.equal(prompt("[in a hurry tone]"), prompt("(in a hurry tone)"))


def test_tokenizer_finds_semantic_tokens(miniature: DualAR) -> None:
    assert miniature.tokenizer.semantic_start_id == miniature.config.semantic_start_id
    assert miniature.tokenizer.semantic_end_id(10_000) == miniature.config.semantic_end_id


def test_missing_special_token_is_named(miniature: DualAR) -> None:
    with pytest.raises(InvalidCheckpoint, match="nowhere"):
        miniature.tokenizer.id("<|nowhere|>")


def test_folder_without_tokenizer_is_rejected(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ReleaseIncomplete, match="no tokenizer"):
        Tokenizer.load(tmp_path)
