"""Prompts of the S2 family: references in the system turn, then text and speech in turns.

Source: the prompt of Fish Audio's S2 reference (ChatML turns; pieces of text tokenised one by one).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.text.tokenizer import IM_END, IM_START, VOICE, Tokenizer

_PLAIN_TASK = "convert the provided text to speech"
_CLONING_TASK = "convert the provided text to speech reference to the following:\n\nText:\n"
_SPEECH_MARK = "\n\nSpeech:\n"
_SPEAKER_TAG = re.compile(r"<\|speaker:\d+\|>")


@dataclass(frozen=True)
class PromptReference:
    """A reference in the prompt: a transcript and its codes `[K, T]`."""

    transcript: str
    codes: Tensor


class PromptBuilder:
    """Builds the columns `[K + 1, T]` int64 of a prompt: row 0 tokens, rows 1…K codes (zero under text)."""

    def __init__(self, tokenizer: Tokenizer, num_codebooks: int) -> None:
        self._tokenizer, self._codebooks = tokenizer, num_codebooks

    def system(self, references: Sequence[PromptReference]) -> Tensor:
        """Build the system turn: the task, and the transcripts and codes of the references."""
        start = self._fixed(f"{IM_START}system\n")
        if not references:
            return torch.cat((start, self._fixed(_PLAIN_TASK), self.turn_end()), dim=1)
        transcripts = "\n".join(
            r.transcript if _SPEAKER_TAG.search(r.transcript) else f"<|speaker:{i}|>{r.transcript}"
            for i, r in enumerate(references)
        )
        codes = torch.cat([r.codes for r in references], dim=1)
        pieces = (
            start,
            self._fixed(_CLONING_TASK),
            self._spoken(transcripts),
            self._fixed(_SPEECH_MARK),
            self.frames(codes),
            self.turn_end(),
        )
        return torch.cat(pieces, dim=1)

    def user(self, text: str) -> Tensor:
        """Build the user turn with `text`, and the beginning of the assistant turn that speaks it."""
        pieces = (
            self._fixed(f"{IM_START}user\n"),
            self._spoken(text),
            self.turn_end(),
            self._fixed(f"{IM_START}assistant\n{VOICE}"),
        )
        return torch.cat(pieces, dim=1)

    def frames(self, codes: Tensor) -> Tensor:
        """Convert codes `[K, T]` to columns: codebook 0 as semantic tokens, all K values below."""
        codes = codes.long()
        return torch.cat((codes[:1] + self._tokenizer.semantic_start_id, codes), dim=0)

    def turn_end(self) -> Tensor:
        """Return the end of a turn; after speech, it precedes the next user turn."""
        return self._fixed(f"{IM_END}\n")

    def speech_ids(self, text: str) -> list[int]:
        """Return the token ids of spoken text, as `user` and `system` place them."""
        return self._tokenizer.encode_speech(text)

    def count_phones(self, text: str) -> int | None:
        """Return the number of phones in spoken text; None for a model that is not given phones."""
        return self._tokenizer.count_phones(text)

    def _fixed(self, text: str) -> Tensor:
        return self._text_columns(self._tokenizer.encode(text))

    def _spoken(self, text: str) -> Tensor:
        return self._text_columns(self.speech_ids(text))

    def _text_columns(self, ids: list[int]) -> Tensor:
        columns = torch.zeros(self._codebooks + 1, len(ids), dtype=torch.long)
        columns[0] = torch.tensor(ids, dtype=torch.long)
        return columns
