"""Progress of speaking a script, and an estimate of the time left."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from engine.text.timing import speaking_time


class SpokenCard(Protocol):
    """A card. duration: seconds of its take, None while it has none. seconds: the same at its playback speed."""

    @property
    def text(self) -> str: ...
    @property
    def pause(self) -> float: ...
    @property
    def duration(self) -> float | None: ...
    @property
    def seconds(self) -> float | None: ...


@dataclass(frozen=True)
class ScriptProgress:
    """Progress of a script.

    cards: their number. done: those with a take. spoken: seconds of audio so far at playback speed, without pauses.
    left: estimated seconds of audio to be generated. wait: estimated seconds until it is generated.
    """

    cards: int
    done: int
    spoken: float
    left: float
    wait: float


def progress(cards: Iterable[SpokenCard], real_time_factor: float) -> ScriptProgress:
    """Estimate the progress for an engine that takes `real_time_factor` seconds for a second of audio.

    The rest is estimated at the speaking rate of the takes so far, because voices differ.
    """
    durations: list[float] = []
    expected, missing, played = 0.0, 0.0, 0.0
    count = 0
    for card in cards:
        count += 1
        if card.duration is None:
            missing += speaking_time(card.text)
        else:
            durations.append(card.duration)
            played += card.seconds or 0.0
            expected += speaking_time(card.text)
    spoken = sum(durations)
    left = missing * (spoken / expected if expected else 1.0)
    return ScriptProgress(count, len(durations), played, left, left * real_time_factor)
