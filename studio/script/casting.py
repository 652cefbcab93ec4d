"""The speakers of a script, and their initial voices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, cycle
from typing import TYPE_CHECKING

from storage.repositories.folding import fold_case

if TYPE_CHECKING:
    from studio.voices.available_voices import ListedVoice

Cast = dict[str | None, str]  # a voice's id by speaker; None is the narrator


def speaker_or_narrator(name: str | None, narrators: Iterable[str]) -> str | None:
    """Return the name of a speaker; None if it is one of the narrator's names, regardless of case."""
    return None if name is None or fold_case(name) in map(fold_case, narrators) else name


def initial_cast(speakers: Iterable[str | None], voices: Sequence[ListedVoice], picked: str) -> Cast:
    """Choose a voice for every speaker.

    A speaker with the name of a voice gets that voice. The narrator gets the picked voice unless a speaker has it;
    without a narrator, the first of the other speakers gets it. The others get different voices as long as there are
    enough.

    speakers: those of all cards, with repetitions. voices: at least the picked one.
    """
    everyone = dict.fromkeys(speakers)
    called = {fold_case(voice.name): voice.id for voice in reversed(voices)}  # the first of those with the same name
    cast: Cast = {name: called[fold_case(name)] for name in everyone if name is not None and fold_case(name) in called}
    if None in everyone and picked not in cast.values():
        cast[None] = picked
    ids = [picked, *(voice.id for voice in voices if voice.id != picked)]
    taken = set(cast.values())
    free = chain([voice for voice in ids if voice not in taken], cycle(ids))
    return cast | {name: next(free) for name in everyone if name not in cast}
