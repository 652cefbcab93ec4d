"""Random sequences of changes and deletions: deleted data must be in no file of the library."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from engine.messages import UserMessage
from engine.voice import Voice
from storage import Storage
from storage.voices.library import TRASH_RETENTION
from tests.attack.storage.marked import Marker, leftover_tokens
from tests.attack.storage.tally import Tally
from tests.storage.scratch import scratch
from tests.storage.speaking import Clock

OWNERS = ("local", "zqowner-ann", "zqowner-bob")


class RandomLibrary:
    """A library and random operations on it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.mark = Marker(self.chance)
        self.clock = Clock(datetime(2026, 11, 22, 9, tzinfo=UTC))
        self.path = path
        self.storage = Storage.open(path, clock=self.clock)
        self.making: list[Callable[[str], object]] = [
            lambda owner: self.storage.voices.add(self.mark.voice(), owner=owner),
            lambda owner: self.storage.history.add(self.mark.spoken(), owner=owner),
            lambda owner: self.storage.scripts.create(
                self.mark.text(120), [self.mark.card() for _ in range(self.chance.randint(1, 12))], owner=owner
            ),
        ]
        self.changing = [self.change_voice, self.recode, self.copy, self.trash, self.change_card, self.take]
        self.deleting = [self.delete_voice, self.purge, self.delete_take, self.discard, self.delete_card]

    def close(self) -> None:
        self.storage.close()

    def run_operations(self, steps: int) -> None:
        """Grow first, then change and delete more than is added."""
        for step in range(steps):
            kinds: list[Sequence[Callable[[str], object]]] = [self.making, self.changing, self.deleting]
            (ways,) = self.chance.choices(kinds, self._weights(step / steps))
            self.chance.choice(ways)(self.chance.choice(OWNERS))
            self.clock.now += TRASH_RETENTION / 5

    def _weights(self, progress: float) -> list[float]:
        return [4, 1, 0.2] if progress < 0.5 else [1, 2, 3]

    def _voice(self, owner: str) -> str | None:
        found = self.storage.voices.list(owner=owner)
        return self.chance.choice(found).id if found else None

    def _card(self, owner: str) -> tuple[str, str] | None:
        found = self.storage.scripts.list(owner=owner)
        if not found:
            return None
        cards = self.storage.scripts.cards(self.chance.choice(found).id, owner=owner)
        if not cards:
            return None
        chosen = self.chance.choice(cards)
        return chosen.id, chosen.text

    def change_voice(self, owner: str) -> None:
        if voice_id := self._voice(owner):
            new = self.mark.voice()
            self.storage.voices.update(
                voice_id, name=new.name, description=new.description, tags=new.tags, consent=new.consent, owner=owner
            )

    def recode(self, owner: str) -> None:
        if voice_id := self._voice(owner):
            self.storage.voices.ready(voice_id, "codec-b", self.mark.recoded, owner=owner)

    def copy(self, owner: str) -> None:
        if voice_id := self._voice(owner):
            self.storage.voices.duplicate(voice_id, owner=owner)

    def trash(self, owner: str) -> None:
        if voice_id := self._voice(owner):
            self.storage.voices.trash(voice_id, owner=owner)
            if self.chance.random() < 0.3:
                self.storage.voices.restore(voice_id, owner=owner)

    def change_card(self, owner: str) -> None:
        if found := self._card(owner):
            card_id, text = found
            scripts = self.storage.scripts
            if self.chance.random() < 0.4 and len(text) > 40:
                scripts.split(card_id, 17, owner=owner)
            else:
                scripts.edit(card_id, self.mark.text(1_000), owner=owner)
                scripts.set_speaker(card_id, self.mark.token(), owner=owner)
                scripts.fail(card_id, UserMessage(self.mark.text(300)), owner=owner)
            script = self.chance.choice(scripts.list(owner=owner))
            scripts.rename(script.id, self.mark.text(120), owner=owner)

    def take(self, owner: str) -> None:
        if found := self._card(owner):
            card_id, text = found
            self.storage.scripts.attach(card_id, self.mark.spoken(text), owner=owner)

    def delete_voice(self, owner: str) -> None:
        if voice_id := self._voice(owner):
            self.storage.voices.delete(voice_id, owner=owner)

    def purge(self, _: str) -> None:
        self.storage.voices.purge_expired()

    def delete_take(self, owner: str) -> None:
        if found := self.storage.history.page(owner=owner).records:
            self.storage.history.delete(self.chance.choice(found).id, owner=owner)

    def discard(self, owner: str) -> None:
        if found := self.storage.scripts.list(owner=owner):
            self.storage.scripts.discard(self.chance.choice(found).id, owner=owner)

    def delete_card(self, owner: str) -> None:
        if found := self._card(owner):
            self.storage.scripts.delete_card(found[0], owner=owner)


def crowded(number: int, *, voices: int = 120) -> Tally:
    """A library of many small rows, in which rows move between pages as owners are deleted one by one."""
    tally = Tally("bytes of what was deleted or changed")
    with scratch() as folder:
        library = RandomLibrary(folder / "voices.db", number)
        try:
            for _ in range(voices):
                name = " ".join([library.mark.token()] * library.chance.randint(1, 4))
                library.storage.voices.add(
                    Voice(name, (library.mark.reference(),), "codec-a"), owner=library.chance.choice(OWNERS)
                )
            for owner in OWNERS:
                _check(tally, library, number, f"crowded, {owner} left", partial(library.storage.delete_owner, owner))
        finally:
            library.close()
    return tally


def run(count: int, seed: int = 0, *, steps: int = 120) -> Tally:
    """Run `count` libraries; the files are read after a purge and after each owner is forgotten."""
    tally = Tally("bytes of what was deleted or changed")
    for number in range(seed, seed + count):
        tally.add(crowded(number))
        with scratch() as folder:
            library = RandomLibrary(folder / "voices.db", number)
            try:
                library.run_operations(steps)
                _check(tally, library, number, "purged", library.storage.voices.purge_expired)
                for owner in OWNERS:
                    _check(tally, library, number, f"{owner} left", partial(library.storage.delete_owner, owner))
            finally:
                library.close()
    return tally


def _check(tally: Tally, library: RandomLibrary, number: int, moment: str, act: Callable[[], object]) -> None:
    act()
    tally.tried += 1
    if left := leftover_tokens(library.path):
        tally.broken.append(f"library {number}, {moment}: {len(left)} fields are still in the files")
