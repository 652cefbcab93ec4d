"""Prompts and turns have the same token ids as those of the reference."""

from typing import Any

import pytest
import torch

from engine.errors import InvalidCheckpoint, ReleaseIncomplete
from engine.families.family import PromptReference
from engine.families.s2.dual_ar import DualAR
from engine.families.s2.prompt import _CLONING_TASK, PromptBuilder
from engine.text.tokenizer import Tokenizer
from tests.engine.conftest import cases, golden

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


def test_tokenizer_finds_semantic_tokens(miniature: DualAR) -> None:
    assert miniature.tokenizer.semantic_start_id == miniature.config.semantic_start_id
    assert miniature.tokenizer.semantic_end_id(10_000) == miniature.config.semantic_end_id


def test_missing_special_token_is_named(miniature: DualAR) -> None:
    with pytest.raises(InvalidCheckpoint, match="nowhere"):
        miniature.tokenizer.id("<|nowhere|>")


def test_folder_without_tokenizer_is_rejected(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ReleaseIncomplete, match="no tokenizer"):
        Tokenizer.load(tmp_path)
