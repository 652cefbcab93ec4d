"""Who speaks with which voice in a script that is new, before anyone has chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, cycle
from typing import TYPE_CHECKING

from storage.repositories.voices import fold

if TYPE_CHECKING:
    from storage import VoiceRecord

Cast = dict[str | None, str]  # a voice's id by speaker; None is the narrator


def first_cast(speakers: Iterable[str | None], voices: Sequence[VoiceRecord], picked: str) -> Cast:
    """A voice for everyone who speaks, so that a dialogue is none with oneself.

    Who is called as a voice is has that one. The picked voice is the narrator's; without a narrator, the first's of the
    others. Each of those has a voice that nobody else has, as long as there are such.

    speakers: those of all cards, each as often as they like. voices: at least the picked one.
    """
    everyone = dict.fromkeys(speakers)
    called = {fold(voice.name): voice.id for voice in reversed(voices)}  # of two of a name, the first
    cast: Cast = {name: called[fold(name)] for name in everyone if name is not None and fold(name) in called}
    if None in everyone:
        cast[None] = picked
    ids = [picked, *(voice.id for voice in voices if voice.id != picked)]
    taken = set(cast.values())
    free = chain([voice for voice in ids if voice not in taken], cycle(ids))
    return cast | {name: next(free) for name in everyone if name not in cast}
