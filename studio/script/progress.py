"""How far the speaking of a script is, and how long the rest will take."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from engine.text.timing import speaking_time


class SpokenCard(Protocol):
    """A card, and how long its take is: seconds, None while there is none."""

    @property
    def text(self) -> str: ...
    @property
    def pause(self) -> float: ...
    @property
    def duration(self) -> float | None: ...


@dataclass(frozen=True)
class Progress:
    """cards, done: how many there are, and have a take. spoken: seconds of sound that there are, without pauses.

    left: seconds of sound that are missing, about. wait: seconds until they will have been made, about.
    """

    cards: int
    done: int
    spoken: float
    left: float
    wait: float


def progress(cards: Iterable[SpokenCard], real_time_factor: float) -> Progress:
    """How far it is, for an engine that takes `real_time_factor` seconds for a second of sound.

    What is left is reckoned at the pace of what is spoken already: voices differ.
    """
    durations: list[float] = []
    expected, missing = 0.0, 0.0
    count = 0
    for card in cards:
        count += 1
        if card.duration is None:
            missing += speaking_time(card.text)
        else:
            durations.append(card.duration)
            expected += speaking_time(card.text)
    spoken = sum(durations)
    left = missing * (spoken / expected if expected else 1.0)
    return Progress(count, len(durations), spoken, left, left * real_time_factor)
