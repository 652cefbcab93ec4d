"""What the model has in view while it speaks: the system turn, and the turns spoken last.

Each part of a long text hears the parts before it, so the voice does not drift; when the view is full, the oldest
turns leave.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import InvalidInput
from engine.serving.slots import Prompt
from engine.text.prompt import PromptBuilder, PromptReference

MIN_TURN_FRAMES = 64


class Conversation:
    """The prompts of one request, one after the other. Use: `open`, speak, then `keep` what was spoken.

    positions: that a prompt and its speech may have together. context: that earlier turns may have in view; when they
    exceed it they leave until half of it is free, so that what stays is read again only now and then.
    """

    def __init__(
        self, prompt: PromptBuilder, references: Sequence[PromptReference], positions: int, context: int
    ) -> None:
        self._prompt, self._positions, self._context = prompt, positions, context
        self._system = prompt.system(references)
        if self._system.shape[1] + MIN_TURN_FRAMES > positions:
            raise InvalidInput(
                "The voice's recordings are too long for this model; make the voice again from a shorter clip."
            )
        self._turns: list[Tensor] = []

    def open(self, text: str, budget: int) -> tuple[Prompt, int]:
        """The prompt of a turn that says `text`, and for how many of `budget` frames there is room."""
        user = self._prompt.user(text)
        self._make_room(user.shape[1] + budget)
        columns = torch.cat((self._system, *self._turns, user), dim=1)
        room = self._positions - columns.shape[1]
        if room < MIN_TURN_FRAMES:
            raise InvalidInput("The text is too long for one turn of this model; put full stops into it.")
        return Prompt(columns, shared=self._system.shape[1]), min(budget, room)

    def keep(self, text: str, codes: Tensor) -> None:
        """`text` has been spoken as `codes [K, T]`; the turns to come hear it."""
        turn = (self._prompt.user(text), self._prompt.frames(codes), self._prompt.turn_end())
        self._turns.append(torch.cat(turn, dim=1))

    def _make_room(self, positions: int) -> None:
        used = sum(turn.shape[1] for turn in self._turns)
        free = self._positions - self._system.shape[1] - positions
        if used <= min(self._context, free):
            return
        limit = min(self._context // 2, max(0, free))
        while self._turns and used > limit:
            used -= self._turns.pop(0).shape[1]
