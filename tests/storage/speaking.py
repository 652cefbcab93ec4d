"""Takes and cards to store, and a settable clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from storage.repositories.takes import NewTake
from tests.storage.making import clip

FLAC = clip(seconds=0.01)


class Clock:
    """Returns the time that was set."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_time(self, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        self.now += timedelta(days=days, hours=hours, seconds=seconds)


@dataclass(frozen=True)
class NewCard:
    text: str
    speaker: str | None = None
    pause: float = 0.2
    ends_paragraph: bool = False
    speed: float = 1.0
    chapter: str | None = None


def card(text: str, speaker: str | None = None, pause: float = 0.2, **how: Any) -> NewCard:
    return NewCard(text, speaker, pause, **how)


def spoken(text: str = "Hello.", *, voice_id: str | None = "e" * 32, duration: float = 1.5) -> NewTake:
    return NewTake(text=text, audio=FLAC, duration=duration, seed=7, voice_name="Ada", voice_id=voice_id)
