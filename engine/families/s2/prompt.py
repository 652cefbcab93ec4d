"""Prompts of the S2 family: references first, then turns of text and speech.

Each segment of a long text has the earlier segments as context, so that the voice does not drift.

Source: the prompts of Fish Audio's references of S2 (ChatML turns) and S1 (text and codes interleaved); in both, pieces
of text are tokenised one by one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from engine.errors import InvalidInput
from engine.families.family import MIN_SPEECH_FRAMES, PromptReference, PromptVoice
from engine.models.prompt import Prompt
from engine.text.cuts import written_size
from engine.text.english.pronunciation import MARKS, WORD_BREAK, spoken_size
from engine.text.sentences import with_style
from engine.text.tags import SPEAKER_TAG, STYLE_TAG
from engine.text.tokenizer import IM_END, IM_START, INTERLEAVE, VOICE, Tokenizer

_PLAIN_TASK = "convert the provided text to speech"
_CLONING_TASK = "convert the provided text to speech reference to the following:\n\nText:\n"
_SPEECH_MARK = "\n\nSpeech:\n"
_USER, _TURN_END = f"{IM_START}user\n", f"{IM_END}\n"


class PromptBuilder:
    """Builder of S2's prompt columns `[K + 1, T]` int64: row 0 holds tokens, rows 1…K codes (zero for text)."""

    def __init__(self, tokenizer: Tokenizer, num_codebooks: int) -> None:
        self._tokenizer, self._codebooks = tokenizer, num_codebooks
        self._fixed = cache(tokenizer.encode)  # only for the few fixed parts of a prompt

    def conversation(self, voice: PromptVoice, positions: int, context_positions: int) -> "S2Conversation":
        return S2Conversation(self, voice, positions, context_positions)

    def prefixes(self, voice: PromptVoice) -> Sequence[Prompt]:
        system = self.system(voice.references)
        return [Prompt(system, shared=system.shape[1])]

    def system(self, references: Sequence[PromptReference]) -> Tensor:
        """Build the system turn: the task, and the transcripts and codes of the references."""
        start = self._fixed(f"{IM_START}system\n")
        if not references:
            return self._text_columns([*start, *self._fixed(_PLAIN_TASK), *self._fixed(_TURN_END)])
        transcripts = "\n".join(
            r.transcript if SPEAKER_TAG.search(r.transcript) else f"<|speaker:{i}|>{r.transcript}"
            for i, r in enumerate(references)
        )
        task, mark = self._fixed(_CLONING_TASK), self._fixed(_SPEECH_MARK)
        text = self._text_columns([*start, *task, *self.speech_ids(transcripts), *mark])
        frames = [self.frames(r.codes) for r in references]
        return torch.cat((text, *frames, self.turn_end()), dim=1)

    def user(self, text: str) -> Tensor:
        """Build the user turn with `text` and the start of the assistant turn that speaks it."""
        user, assistant = self._fixed(_USER), self._fixed(f"{IM_START}assistant\n{VOICE}")
        return self._text_columns([*user, *self.speech_ids(text), *self._fixed(_TURN_END), *assistant])

    def frames(self, codes: Tensor) -> Tensor:
        """Convert codes `[K, T]` to columns: codebook 0 as semantic tokens in row 0, all K codes below."""
        codes = codes.long()
        return torch.cat((codes[:1] + self._tokenizer.semantic_start_id, codes), dim=0)

    def turn_end(self) -> Tensor:
        """Return the columns that end a turn."""
        return self._text_columns(self._fixed(_TURN_END))

    def speech_ids(self, text: str) -> list[int]:
        """Return the token ids of spoken text, as used by `user` and `system`."""
        return self._tokenizer.encode_speech(text)

    @cached_property
    def word_ends(self) -> frozenset[int]:
        """The ids of the tokens that follow a word of spoken text in phones: the word break and the marks."""
        return frozenset(self._tokenizer.encode(" ".join((WORD_BREAK, *MARKS))))

    def place_of(self, text: str, prompt: Prompt) -> tuple[int, int]:
        """Return the first position and the number of tokens of `text` in its own `prompt`."""
        before, count = len(self._fixed(_USER)), len(self.speech_ids(text))
        return prompt.columns.shape[1] - self.user(text).shape[1] + before, count

    def count_phones(self, text: str) -> int | None:
        """Return the number of phones in spoken text; None for a model that does not use phones."""
        return self._tokenizer.count_phones(text)

    def unpronounceable(self, text: str) -> list[str]:
        """Return the words that the model's lexicon cannot spell in phones."""
        return self._tokenizer.lexicon.unpronounceable(text) if self._tokenizer.lexicon else []

    @property
    def text_size(self) -> Callable[[str], int]:
        """The size that limits a segment: as the lexicon reads it, if there is one, else as it is written."""
        return spoken_size if self._tokenizer.lexicon else written_size

    def _text_columns(self, ids: Sequence[int]) -> Tensor:
        # With NumPy, because each call of PyTorch passes the global lock to another thread that prepares a prompt.
        columns = np.zeros((self._codebooks + 1, len(ids)), np.int64)
        columns[0] = ids
        return torch.from_numpy(columns)


class InterleavedPromptBuilder(PromptBuilder):
    """Builder of S1's prompt columns: turns of text followed by its codes, references among them, without roles.

    S1's tokenizer has no token for the tag of a speaker; it is written before each text all the same. S1 was trained
    with style tags in parentheses.
    """

    def __init__(self, tokenizer: Tokenizer, num_codebooks: int) -> None:
        """Raises InvalidCheckpoint if the tokenizer has no token for this layout."""
        super().__init__(tokenizer, num_codebooks)
        self._start = self._text_columns([tokenizer.id(INTERLEAVE)])

    def system(self, references: Sequence[PromptReference]) -> Tensor:
        turns = [(self.user(r.transcript), self.frames(r.codes), self.turn_end()) for r in references]
        return torch.cat((self._start, *(piece for turn in turns for piece in turn)), dim=1)

    def user(self, text: str) -> Tensor:
        tag = [] if SPEAKER_TAG.match(text) else self._fixed("<|speaker:0|>")
        return self._text_columns([*tag, *self.speech_ids(text)])

    def turn_end(self) -> Tensor:
        return self._text_columns(self._fixed(IM_END))

    def speech_ids(self, text: str) -> list[int]:
        return super().speech_ids(STYLE_TAG.sub(lambda tag: f"({tag[0][1:-1]})", text))

    def place_of(self, text: str, prompt: Prompt) -> tuple[int, int]:
        count = len(self.speech_ids(text))
        return prompt.columns.shape[1] - count, count


@dataclass(frozen=True)
class _SpokenTurn:
    """Columns of a turn. generated: range of the columns decoded one by one, from its prompt's last one on."""

    columns: Tensor
    generated: tuple[int, int]


class S2Conversation:
    """The context of one request: the system turn and the latest turns, from which prompts are built.

    When the context is full, the oldest turns are removed. The others then move to new positions and are prefilled
    again.

    positions: maximum for a prompt and its speech together. context_positions: how many of them earlier turns may use.
    When they exceed it, turns are removed until half of it is free, so that prefilling again is rare.
    """

    def __init__(self, prompts: PromptBuilder, voice: PromptVoice, positions: int, context_positions: int) -> None:
        self._prompts, self._positions, self._history_positions = prompts, positions, context_positions
        self._system, self._style = prompts.system(voice.references), voice.style
        if self._system.shape[1] + MIN_SPEECH_FRAMES > positions:
            raise InvalidInput("voices.too_long")
        self._turns: list[_SpokenTurn] = []
        self._moved = 0  # how many of the first turns are no longer at the positions at which they were spoken
        self._last_user: tuple[str, Tensor] | None = None  # the last text and its user turn: to read it takes a while

    def begin_turn(self, text: str, budget: int) -> tuple[Prompt, int]:
        """Remove old turns if there is no room for a turn that says `text`, and build its prompt. Also return how many
        of `budget` frames fit after it."""
        user = self._user(text)
        self._remove_old_turns(user.shape[1] + max(budget, MIN_SPEECH_FRAMES))
        columns = torch.cat((self._system, *(turn.columns for turn in self._turns), user), dim=1)
        room = self._positions - columns.shape[1]
        if room < MIN_SPEECH_FRAMES:
            raise InvalidInput("text.long_turn")
        return Prompt(columns, shared=self._system.shape[1], generated_ranges=self._generated_ranges()), min(
            budget, room
        )

    def append(self, text: str, codes: Tensor) -> None:
        """Add the turn that said `text` as `codes [K, T]` to the context."""
        user, frames = self._user(text), self._prompts.frames(codes)
        end = user.shape[1] + frames.shape[1]
        columns = torch.cat((user, frames, self._prompts.turn_end()), dim=1)
        self._turns.append(_SpokenTurn(columns, (user.shape[1] - 1, end)))

    def _user(self, text: str) -> Tensor:
        """Return the user turn with `text`, read once for its prompt and for the context."""
        if self._last_user is None or self._last_user[0] != text:
            self._last_user = text, self._prompts.user(with_style(text, self._style))
        return self._last_user[1]

    def _generated_ranges(self) -> tuple[tuple[int, int], ...]:
        found, at = [], self._system.shape[1]
        for number, turn in enumerate(self._turns):
            if number >= self._moved:
                found.append((at + turn.generated[0], at + turn.generated[1]))
            at += turn.columns.shape[1]
        return tuple(found)

    def _remove_old_turns(self, positions: int) -> None:
        used = sum(turn.columns.shape[1] for turn in self._turns)
        free = self._positions - self._system.shape[1] - positions
        if used <= min(self._history_positions, free):
            return
        limit = min(self._history_positions // 2, max(0, free))
        while self._turns and used > limit:
            used -= self._turns.pop(0).columns.shape[1]
        self._moved = len(self._turns)
