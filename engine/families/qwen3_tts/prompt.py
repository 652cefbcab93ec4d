"""Prompts of Qwen3-TTS. Each turn has its own prompt; prompts share only the voice.

Source: `generate` of the package qwen-tts 0.1.1. Text and speech run in parallel, one text token per column. For a
cloned voice with a transcript, the transcript and the text run above the codes of the clip, and the rest of the text
runs above the generated frames. For a named or described voice, all the text comes before the first frame.
"""

import hashlib
import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.errors import InvalidInput
from engine.families.family import MIN_SPEECH_FRAMES, PromptReference, PromptVoice
from engine.families.qwen3_tts.config import TalkerConfig
from engine.families.qwen3_tts.talker import NOTHING, SPEAKER, TRAILING
from engine.families.qwen3_tts.tokenizer import TextTokenizer
from engine.models.prompt import Prompt
from engine.text.splitting import written_size

_ROLE, _TURN_END, _NEXT_ROLE = 3, 2, 5
"""Numbers of tokens around a text: `<|im_start|>assistant\\n`, `<|im_end|>\\n`, and the latter with the next role."""
_SPEAKER_TAG = re.compile(r"<\|speaker:(\d+)\|>")
_DIALECT_OF = ("", "chinese")  # requested languages for which a speaker's dialect is used
_DIGEST_BITS = 31  # per row, so that the value is a non-negative 32-bit integer
_CODEC_CONTEXT = 25  # frames; qwen-tts decodes as many again before each chunk of a long take


class TalkerPrompts:
    """Builder of prompt columns `[K + 1, T]` int64; see `Talker` for their rows."""

    def __init__(self, config: TalkerConfig, tokenizer: TextTokenizer) -> None:
        self.config, self._tokenizer = config, tokenizer
        self._languages = dict(config.languages)
        self._speakers = {name: (token, dialect) for name, token, dialect in config.speakers}

    def conversation(self, voice: PromptVoice, positions: int, context_positions: int) -> "IndependentTurns":
        return IndependentTurns(self, voice, positions)

    def prefixes(self, voice: PromptVoice) -> Sequence[Prompt]:
        found = []
        for reference in voice.references or (None,):
            for language in ("", *self._languages):
                shared = self._shared(reference, PromptVoice((), voice.speaker, voice.description, language))
                found.append(Prompt(shared, shared=shared.shape[1], codec_context=_codec_context(reference)))
        return found

    def count_phones(self, text: str) -> int | None:
        return None

    def unpronounceable(self, text: str) -> list[str]:
        return []

    @property
    def text_size(self) -> Callable[[str], int]:
        return written_size

    def prompt(self, reference: PromptReference | None, voice: PromptVoice, text: str) -> Prompt:
        """Build the prompt of a turn that says `text`. Raises InvalidInput if the text is too long.

        reference: the reference to clone; None for one of the model's built-in voices.
        """
        text = self._tokenizer.without_own_tokens(text)
        ids = self._tokenizer.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
        said, control = ids[_ROLE:-_NEXT_ROLE], self.config.control_tokens
        shared = self._shared(reference, voice)
        if reference is not None and reference.transcript:
            tokens = [*self._reference_ids(reference.transcript), *said, control.text_eos]
            columns, trailing = self._beside(tokens, self._codes(reference))
            columns = torch.cat((self._head(reference, voice), columns), dim=1)
        elif reference is not None:
            columns = torch.cat((shared, self._column(said[0], control.bos)), dim=1)
            trailing = [*said[1:], control.text_eos]
        else:
            tokens = [*said, control.text_eos]
            above = self._above(tokens, [control.pad] * len(tokens))
            columns, trailing = torch.cat((shared, above, self._column(control.text_pad, control.bos)), dim=1), []
        if len(trailing) >= TRAILING:
            raise InvalidInput("text.long_turn")
        return Prompt(
            columns,
            shared=shared.shape[1],
            trailing_text=torch.tensor([*trailing, control.text_pad]),
            embedding=None if reference is None else reference.embedding,
            codec_context=_codec_context(reference),
        )

    def fits(self, reference: PromptReference | None, voice: PromptVoice, positions: int) -> bool:
        """Return whether the part of a prompt that precedes its text leaves room for speech in `positions`."""
        used, trailing = self._head(reference, voice).shape[1], 0
        if reference is not None and reference.transcript:
            columns, rest = self._beside(self._reference_ids(reference.transcript), self._codes(reference))
            used, trailing = used + columns.shape[1], len(rest)
        return used + MIN_SPEECH_FRAMES <= positions and trailing < TRAILING

    def _shared(self, reference: PromptReference | None, voice: PromptVoice) -> Tensor:
        """Return the columns that all prompts of a voice start with."""
        head = self._head(reference, voice)
        if reference is None or not reference.transcript:
            return head
        tokens, codes = self._reference_ids(reference.transcript), self._codes(reference)
        common = min(len(tokens), codes.shape[1])
        beside = codes[:, :common].clone()
        beside[0] = torch.tensor(tokens[:common])
        return torch.cat((head, beside), dim=1)

    def _head(self, reference: PromptReference | None, voice: PromptVoice) -> Tensor:
        """Return the columns of instruction, role, language and speaker."""
        control, speaker = self.config.control_tokens, self._speakers.get(voice.speaker)
        description = self._tokenizer.without_own_tokens(voice.description)
        instruction = f"<|im_start|>user\n{description}<|im_end|>\n" if description else ""
        role = self._tokenizer.encode("<|im_start|>assistant\n")
        text = [*self._tokenizer.encode(instruction), *role]
        language = self._language(voice.language, speaker[1] if speaker else "")
        begin = (
            [control.nothink, control.think_bos] if language is None else [control.think, control.think_bos, language]
        )
        tags = [self._above([control.text_pad] * (len(begin) + 1), [*begin, control.think_eos])]
        if reference is not None and reference.embedding is not None:
            tags.append(self._speaker_column(reference.embedding))
        elif speaker is not None:
            tags.append(self._column(control.text_pad, speaker[0]))
        return torch.cat(
            (self._above(text, [NOTHING] * len(text)), *tags, self._column(control.text_bos, control.pad)), dim=1
        )

    def _language(self, language: str, dialect: str) -> int | None:
        if dialect and language in _DIALECT_OF:
            return self._languages[dialect]
        return self._languages[language] if language else None

    def _reference_ids(self, transcript: str) -> list[int]:
        transcript = self._tokenizer.without_own_tokens(transcript)
        return self._tokenizer.encode(f"<|im_start|>assistant\n{transcript}<|im_end|>\n")[_ROLE:-_TURN_END]

    def _codes(self, reference: PromptReference) -> Tensor:
        """Return the columns of a clip, without text: the start mark, then its frames."""
        frames = torch.cat((torch.full((1, reference.codes.shape[1]), NOTHING), reference.codes.long()), dim=0)
        return torch.cat((self._column(NOTHING, self.config.control_tokens.bos), frames), dim=1)

    def _beside(self, tokens: list[int], codes: Tensor) -> tuple[Tensor, list[int]]:
        """Put text tokens above the columns of a clip. Return the columns and the remaining tokens."""
        room = codes.shape[1]
        columns = codes.clone()
        columns[0] = torch.tensor([*tokens[:room], *[self.config.control_tokens.text_pad] * (room - len(tokens))])
        return columns, tokens[room:]

    def _above(self, text: Sequence[int], codec: Sequence[int]) -> Tensor:
        """Return columns of text tokens and codec tokens, without residual codes."""
        columns = torch.zeros(self.config.num_codebooks + 1, len(text), dtype=torch.long)
        columns[0], columns[1] = torch.tensor(text), torch.tensor(codec)
        return columns

    def _column(self, text: int, codec: int) -> Tensor:
        return self._above([text], [codec])

    def _speaker_column(self, embedding: Tensor) -> Tensor:
        column = self._column(self.config.control_tokens.text_pad, SPEAKER)
        digest = hashlib.sha256(embedding.detach().to("cpu", torch.float32).numpy().tobytes()).digest()
        number = int.from_bytes(digest, "big")
        for row in range(2, len(column)):
            column[row] = number & ((1 << _DIGEST_BITS) - 1)
            number >>= _DIGEST_BITS
        return column


def _codec_context(reference: PromptReference | None) -> Tensor | None:
    """Return the last codes of the reference clip, from which the codec continues; None if no clip is in the prompt."""
    return reference.codes[:, -_CODEC_CONTEXT:].long() if reference is not None and reference.transcript else None


class IndependentTurns:
    """The context of one request with independent turns. Raises InvalidInput if the voice is too long.

    positions: maximum for a prompt and its speech together.
    """

    def __init__(self, prompts: TalkerPrompts, voice: PromptVoice, positions: int) -> None:
        self._prompts, self._voice, self._positions = prompts, voice, positions
        if not all(prompts.fits(reference, voice, positions) for reference in voice.references or (None,)):
            raise InvalidInput("voices.too_long")

    def begin_turn(self, text: str, budget: int) -> tuple[Prompt, int]:
        """Build the prompt of a turn that says `text`. Also return how many of `budget` frames fit after it.

        The first speaker tag selects the reference for the whole turn.
        """
        tag, references = _SPEAKER_TAG.search(text), self._voice.references
        reference = references[min(int(tag[1]), len(references) - 1) if tag else 0] if references else None
        prompt = self._prompts.prompt(reference, self._voice, _SPEAKER_TAG.sub("", text))
        room = self._positions - prompt.columns.shape[1]
        if room < MIN_SPEECH_FRAMES:
            raise InvalidInput("text.long_turn")
        return prompt, min(budget, room)

    def append(self, text: str, codes: Tensor) -> None:
        """Do nothing: prompts do not contain earlier turns."""
