"""One turn of speech: what is to be continued, how far it has come, and why it stopped."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.models.sampling import SamplingOptions
from engine.serving.slots import Prompt

TurnStop = Literal["end", "length", "loop", "cancelled"]

# A loop is a stretch of semantic tokens said over and over. Pauses repeat tokens too, but not for this long.
LOOP_MAX_PERIOD = 24
LOOP_MIN_FRAMES = 40
LOOP_MIN_REPEATS = 3


def is_looping(semantic_codes: list[int]) -> bool:
    """Whether the last two seconds or more only repeat themselves."""
    for period in range(1, LOOP_MAX_PERIOD + 1):
        span = max(LOOP_MIN_FRAMES, LOOP_MIN_REPEATS * period)
        if len(semantic_codes) >= span:
            tail = semantic_codes[-span:]
            if tail[period:] == tail[:-period]:
                return True
    return False


@dataclass(eq=False)
class Turn:
    """Frames of one turn, until the model ends it, loops, or has used up its budget.

    budget: frames that it may have. key: of its noise. codes: those so far, each `[K]`.
    """

    prompt: Prompt
    budget: int
    options: SamplingOptions
    key: int
    stop: TurnStop | None = None
    codes: list[NDArray[np.int64]] = field(default_factory=list)
    _semantic: list[int] = field(default_factory=list)

    @property
    def frames(self) -> int:
        return len(self.codes)

    def push(self, frame: NDArray[np.int64], end_index: int) -> None:
        """Take the next frame `[K + 1]`: the semantic draw, then the codes. `stop` is set when it was the last."""
        drawn = int(frame[0])
        if drawn == end_index:
            self.stop = "end"
            return
        self.codes.append(frame[1:])
        self._semantic.append(drawn)
        if is_looping(self._semantic):
            self.stop = "loop"
        elif self.frames >= self.budget:
            self.stop = "length"
