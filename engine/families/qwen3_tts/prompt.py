"""Prompts of Qwen3-TTS. Every turn is a prompt of its own: what it shares with others is the voice.

Source: `generate` of the package qwen-tts 0.1.1. Text and speech run side by side, one text token a column. A cloned
voice's transcript and the text run above the codes of its clip, and what is left of the text runs above the frames to
come. A named or described voice has all the text before the first frame.
"""

import hashlib
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import InvalidInput
from engine.families.family import MIN_TURN_FRAMES, PromptReference, PromptVoice
from engine.families.qwen3_tts.config import TalkerConfig
from engine.families.qwen3_tts.talker import NOTHING, SPEAKER, TRAILING
from engine.families.qwen3_tts.tokenizer import TextTokenizer
from engine.models.prompt import Prompt

_ROLE, _TURN_END, _NEXT_ROLE = 3, 2, 5
"""Tokens around a text: `<|im_start|>assistant\\n`, `<|im_end|>\\n`, and the end with the next role."""
_SPEAKER_TAG = re.compile(r"<\|speaker:(\d+)\|>")
_DIALECT_OF = ("", "chinese")  # languages in which a speaker with a dialect speaks it
_DIGEST_BITS = 31  # of a row, so that it is a positive number of 32 bits
_CODEC_CONTEXT = 25  # frames; as many as the package decodes again before each part of a long take


class TalkerPrompts:
    """Builds the columns `[K + 1, T]` int64 of prompts; see `Talker` for their rows."""

    def __init__(self, config: TalkerConfig, tokenizer: TextTokenizer) -> None:
        self.config, self._tokenizer = config, tokenizer
        self._languages = dict(config.languages)
        self._speakers = {name: (token, dialect) for name, token, dialect in config.speakers}

    def conversation(self, voice: PromptVoice, positions: int, history_positions: int) -> "SeparateTurns":
        return SeparateTurns(self, voice, positions)

    def prefixes(self, voice: PromptVoice) -> Sequence[Prompt]:
        found = []
        for reference in voice.references or (None,):
            for language in ("", *self._languages):
                shared = self._shared(reference, PromptVoice((), voice.speaker, voice.description, language))
                found.append(Prompt(shared, shared=shared.shape[1], codec_context=_codec_context(reference)))
        return found

    def count_phones(self, text: str) -> int | None:
        return None

    def unspoken(self, text: str) -> list[str]:
        return []

    def prompt(self, reference: PromptReference | None, voice: PromptVoice, text: str) -> Prompt:
        """Build the prompt of a turn that says `text`. Raises InvalidInput for text too long.

        reference: the one to clone; None for a voice of the model's own.
        """
        ids = self._tokenizer.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
        said, marks = ids[_ROLE:-_NEXT_ROLE], self.config.marks
        shared = self._shared(reference, voice)
        if reference is not None and reference.transcript:
            tokens = [*self._reference_ids(reference.transcript), *said, marks.text_eos]
            columns, trailing = self._beside(tokens, self._codes(reference))
            columns = torch.cat((self._head(reference, voice), columns), dim=1)
        elif reference is not None:
            columns = torch.cat((shared, self._column(said[0], marks.bos)), dim=1)
            trailing = [*said[1:], marks.text_eos]
        else:
            tokens = [*said, marks.text_eos]
            above = self._above(tokens, [marks.pad] * len(tokens))
            columns, trailing = torch.cat((shared, above, self._column(marks.text_pad, marks.bos)), dim=1), []
        if len(trailing) >= TRAILING:
            raise InvalidInput("text.long_turn")
        return Prompt(
            columns,
            shared=shared.shape[1],
            trailing=torch.tensor([*trailing, marks.text_pad]),
            vector=None if reference is None else reference.embedding,
            codec_context=_codec_context(reference),
        )

    def _shared(self, reference: PromptReference | None, voice: PromptVoice) -> Tensor:
        """Return the columns with which all prompts of a voice begin."""
        head = self._head(reference, voice)
        if reference is None or not reference.transcript:
            return head
        tokens, codes = self._reference_ids(reference.transcript), self._codes(reference)
        common = min(len(tokens), codes.shape[1])
        beside = codes[:, :common].clone()
        beside[0] = torch.tensor(tokens[:common])
        return torch.cat((head, beside), dim=1)

    def _head(self, reference: PromptReference | None, voice: PromptVoice) -> Tensor:
        """Return instruction, role, language and speaker, as columns."""
        marks, speaker = self.config.marks, self._speakers.get(voice.speaker)
        instruction = f"<|im_start|>user\n{voice.description}<|im_end|>\n" if voice.description else ""
        role = self._tokenizer.encode("<|im_start|>assistant\n")
        text = [*self._tokenizer.encode(instruction), *role]
        language = self._language(voice.language, speaker[1] if speaker else "")
        begin = [marks.nothink, marks.think_bos] if language is None else [marks.think, marks.think_bos, language]
        tags = [self._above([marks.text_pad] * (len(begin) + 1), [*begin, marks.think_eos])]
        if reference is not None and reference.embedding is not None:
            tags.append(self._speaker_column(reference.embedding))
        elif speaker is not None:
            tags.append(self._column(marks.text_pad, speaker[0]))
        return torch.cat(
            (self._above(text, [NOTHING] * len(text)), *tags, self._column(marks.text_bos, marks.pad)), dim=1
        )

    def _language(self, language: str, dialect: str) -> int | None:
        if dialect and language in _DIALECT_OF:
            return self._languages[dialect]
        return self._languages[language] if language else None

    def _reference_ids(self, transcript: str) -> list[int]:
        return self._tokenizer.encode(f"<|im_start|>assistant\n{transcript}<|im_end|>\n")[_ROLE:-_TURN_END]

    def _codes(self, reference: PromptReference) -> Tensor:
        """Return the columns of a clip, without text: the mark before it, then its frames."""
        frames = torch.cat((torch.full((1, reference.codes.shape[1]), NOTHING), reference.codes.long()), dim=0)
        return torch.cat((self._column(NOTHING, self.config.marks.bos), frames), dim=1)

    def _beside(self, tokens: list[int], codes: Tensor) -> tuple[Tensor, list[int]]:
        """Put text tokens above the columns of a clip → the columns, and the tokens that are left."""
        room = codes.shape[1]
        columns = codes.clone()
        columns[0] = torch.tensor([*tokens[:room], *[self.config.marks.text_pad] * (room - len(tokens))])
        return columns, tokens[room:]

    def _above(self, text: Sequence[int], codec: Sequence[int]) -> Tensor:
        """Return columns of text tokens and codec tokens, without residual codes."""
        columns = torch.zeros(self.config.num_codebooks + 1, len(text), dtype=torch.long)
        columns[0], columns[1] = torch.tensor(text), torch.tensor(codec)
        return columns

    def _column(self, text: int, codec: int) -> Tensor:
        return self._above([text], [codec])

    def _speaker_column(self, embedding: Tensor) -> Tensor:
        column = self._column(self.config.marks.text_pad, SPEAKER)
        digest = hashlib.sha256(embedding.detach().to("cpu", torch.float32).numpy().tobytes()).digest()
        number = int.from_bytes(digest, "big")
        for row in range(2, len(column)):
            column[row] = number & ((1 << _DIGEST_BITS) - 1)
            number >>= _DIGEST_BITS
        return column


def _codec_context(reference: PromptReference | None) -> Tensor | None:
    """Return the end of a clip that is in the prompt: the speech goes on from there."""
    return reference.codes[:, -_CODEC_CONTEXT:].long() if reference is not None and reference.transcript else None


class SeparateTurns:
    """The context of one request, whose turns do not depend on each other. Raises InvalidInput for a voice too long.

    positions: of a prompt and its speech together.
    """

    def __init__(self, prompts: TalkerPrompts, voice: PromptVoice, positions: int) -> None:
        self._prompts, self._voice, self._positions = prompts, voice, positions
        longest = max((reference.codes.shape[1] for reference in voice.references), default=0)
        if longest + MIN_TURN_FRAMES > positions:
            raise InvalidInput("voices.too_long")

    def prompt_for(self, text: str, budget: int) -> tuple[Prompt, int]:
        """Build the prompt of a turn that says `text`, and say how many of `budget` frames fit behind it.

        The first speaker tag chooses the reference; the words of one turn have one voice.
        """
        tag, references = _SPEAKER_TAG.search(text), self._voice.references
        reference = references[min(int(tag[1]), len(references) - 1) if tag else 0] if references else None
        prompt = self._prompts.prompt(reference, self._voice, _SPEAKER_TAG.sub("", text))
        room = self._positions - prompt.columns.shape[1]
        if room < MIN_TURN_FRAMES:
            raise InvalidInput("text.long_turn")
        return prompt, min(budget, room)

    def append(self, text: str, codes: Tensor) -> None:
        """Add nothing: the model is not given the turns before."""
