"""What the model has in view while it speaks: the system turn, and the turns spoken last.

Each part of a long text hears the parts before it, so the voice does not drift; when the view is full, the oldest
turns leave.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import InvalidInput
from engine.prompt import PromptBuilder, PromptReference
from engine.runner import Runner

# Positions of earlier turns kept in view: about 40 s of speech. When they are exceeded, half of them leave, so that
# what stays is read again only now and then.
CONTEXT_POSITIONS = 1024
MIN_TURN_FRAMES = 64


class Conversation:
    """The prompt of one request and its cache. Use: `open`, generate, then `keep` or `undo`."""

    def __init__(self, runner: Runner, prompt: PromptBuilder, references: Sequence[PromptReference]) -> None:
        self._runner, self._prompt = runner, prompt
        self._system = prompt.system(references)
        if self._system.shape[1] + MIN_TURN_FRAMES > runner.max_positions:
            raise InvalidInput(
                "The voice's recordings are too long for this model; make the voice again from a shorter clip."
            )
        self._turns: list[Tensor] = []
        self._owed = self._system
        self.cache = runner.new_cache(self._system.shape[1] + 512)
        self._mark = 0

    def open(self, text: str, budget: int) -> tuple[Tensor, int]:
        """Make room for a turn that says `text` in at most `budget` frames.

        Returns: the columns `[K + 1, T]` that open the turn, and the frames that there is room for.
        """
        user = self._prompt.user(text)
        self._make_room(user.shape[1] + budget)
        if self._owed.shape[1]:
            self._runner.prefill(self.cache, self._owed)
            self._owed = self._owed[:, :0]
        self._mark = self.cache.length
        room = self._runner.max_positions - self._mark - user.shape[1] - self._prompt.turn_end().shape[1]
        if room < MIN_TURN_FRAMES:
            raise InvalidInput("The text is too long for one turn of this model; put full stops into it.")
        return user, min(budget, room)

    def undo(self) -> None:
        """Forget the turn that was opened last."""
        self.cache.truncate(self._mark)

    def keep(self, text: str, codes: Tensor) -> None:
        """The turn that was opened last has been spoken as `codes [K, T]`; the turns to come hear it."""
        end = self._prompt.turn_end()
        self._turns.append(torch.cat((self._prompt.user(text), self._prompt.frames(codes), end), dim=1))
        self._owed = end

    def _make_room(self, positions: int) -> None:
        used = sum(turn.shape[1] for turn in self._turns)
        free = self._runner.max_positions - self._system.shape[1] - positions
        if not self._turns or used <= min(CONTEXT_POSITIONS, free):
            return
        limit = min(CONTEXT_POSITIONS // 2, max(0, free))
        while self._turns and used > limit:
            used -= self._turns.pop(0).shape[1]
        self.cache.truncate(self._system.shape[1])
        self._owed = torch.cat((self._owed[:, :0], *self._turns), dim=1)
