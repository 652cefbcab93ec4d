"""Isolation of owners: after any sequence of operations each owner sees exactly their own content."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule, run_state_machine_as_test
from sqlalchemy import Engine, event

from engine.codes import codes_to_bytes
from engine.errors import InvalidInput
from storage.database import Database
from storage.errors import ScriptNotFound, TakeNotFound
from storage.repositories.takes import TakeRecord
from storage.repositories.voices.shared_voices import SampleVoice
from storage.repositories.voices.usage import StorageUse
from storage.storage import Storage
from tests.storage.conftest import empty_tables
from tests.storage.making import voice
from tests.storage.speaking import FLAC, card, spoken

PICTURE = b"RIFF....WEBP"
OWNERS = ("ann", "bob", "Ann")
owners = st.sampled_from(OWNERS)
texts = st.sampled_from(["One.", "שלום.", "🎉 Two?", "Naïve three!"])


class OwnerIsolation(RuleBasedStateMachine):
    """Compares the database with a model of dicts and lists. All owners try every id; it works only for its owner."""

    takes = Bundle("takes")
    scripts = Bundle("scripts")
    cards = Bundle("cards")

    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        with self.database.write() as session:
            empty_tables(session.connection())
        self.storage = Storage(self.database)
        self.kept: dict[str, tuple[str, str, bool, bool, str | None]] = {}  # owner, text, listed, starred, card
        self.off: set[str] = set()
        self.written: dict[str, tuple[str, list[str]]] = {}  # owner, cards
        self.texts: dict[str, str] = {}  # of cards
        self.chosen: dict[str, str | None] = {}

    def teardown(self) -> None:
        self.see_own_content()

    def allowed(self, call: Callable[[], object], may: bool) -> bool:
        """Check that the call succeeds exactly if `may`, and return `may`."""
        if may:
            call()
        else:
            with pytest.raises((TakeNotFound, ScriptNotFound)):
                call()
        return may

    @rule(target=takes, owner=owners, text=texts)
    def speak(self, owner: str, text: str) -> str:
        made = self.storage.history.add(spoken(text), owner=owner)
        assert (made is None) == (owner in self.off)
        if made is None:
            return "0" * 32
        self.kept[made.id] = (owner, text, True, False, None)
        return made.id

    @rule(owner=owners, on=st.booleans())
    def switch(self, owner: str, on: bool) -> None:
        self.storage.history.change_settings(history=on, owner=owner)
        self.off = self.off - {owner} if on else self.off | {owner}

    @rule(one=takes, owner=owners, starred=st.booleans())
    def star(self, one: str, owner: str, starred: bool) -> None:
        may = one in self.kept and self.kept[one][0] == owner
        if self.allowed(lambda: self.storage.history.star(one, starred, owner=owner), may):
            _, text, listed, _, of = self.kept[one]
            self.kept[one] = (owner, text, listed or starred, starred, of)

    @rule(one=takes, owner=owners)
    def read_audio(self, one: str, owner: str) -> None:
        may = one in self.kept and self.kept[one][0] == owner
        self.allowed(lambda: self.storage.history.audio(one, owner=owner), may)

    @rule(one=takes, owner=owners)
    def delete(self, one: str, owner: str) -> None:
        may = one in self.kept and self.kept[one][0] == owner
        if self.allowed(lambda: self.storage.history.delete(one, owner=owner), may):
            self.forget_take(one)

    def forget_take(self, one: str) -> None:
        *_, of = self.kept.pop(one)
        if of is not None and self.chosen.get(of) == one:
            self.chosen[of] = None

    @rule(target=scripts, owner=owners, written=st.lists(texts, min_size=1, max_size=3))
    def write(self, owner: str, written: list[str]) -> str:
        script = self.storage.scripts.create("Play", map(card, written), owner=owner)
        made = [each.id for each in self.storage.scripts.cards(script.id, owner=owner)]
        self.written[script.id] = (owner, made)
        self.texts |= dict(zip(made, written, strict=True))
        self.chosen |= dict.fromkeys(made)
        return script.id

    @rule(target=cards, script=scripts, place=st.integers(0, 2))
    def pick(self, script: str, place: int) -> str:
        _, made = self.written.get(script, ("", []))
        return made[place] if place < len(made) else "1" * 32

    def owner_of(self, one: str) -> str | None:
        return next((owner for owner, made in self.written.values() if one in made), None)

    @rule(target=takes, one=cards, owner=owners, text=texts)
    def attach(self, one: str, owner: str, text: str) -> str:
        before = {record.id for record in self.takes_of(one, owner)}
        may = self.owner_of(one) == owner
        if not self.allowed(lambda: self.storage.scripts.attach(one, spoken(text), owner=owner), may):
            return "0" * 32
        (made,) = {record.id for record in self.takes_of(one, owner)} - before
        self.kept[made] = (owner, text, owner not in self.off, False, one)
        if text == self.texts[one]:
            self.chosen[one] = made
        return made

    def takes_of(self, one: str, owner: str) -> list[TakeRecord]:
        return self.storage.scripts.takes(one, owner=owner) if self.owner_of(one) == owner else []

    @rule(one=cards, owner=owners, text=texts)
    def edit(self, one: str, owner: str, text: str) -> None:
        may = self.owner_of(one) == owner
        if self.allowed(lambda: self.storage.scripts.edit(one, text, owner=owner), may) and text != self.texts[one]:
            self.texts[one] = text
            self.chosen[one] = None

    @rule(one=cards, owner=owners, place=st.integers(0, 2))
    def move(self, one: str, owner: str, place: int) -> None:
        made = next((made for _, made in self.written.values() if one in made), [])
        if self.owner_of(one) == owner and place >= len(made):
            with pytest.raises(InvalidInput):
                self.storage.scripts.move(one, place, owner=owner)
        elif self.allowed(lambda: self.storage.scripts.move(one, place, owner=owner), self.owner_of(one) == owner):
            made.remove(one)
            made.insert(place, one)

    @rule(one=cards, owner=owners)
    def delete_card(self, one: str, owner: str) -> None:
        may = self.owner_of(one) == owner
        if self.allowed(lambda: self.storage.scripts.delete_card(one, owner=owner), may):
            next(made for _, made in self.written.values() if one in made).remove(one)
            self.release(one)

    def release(self, one: str) -> None:
        """Release the takes of a deleted card: those listed in the history stay."""
        for made, (owner, text, listed, starred, of) in list(self.kept.items()):
            if of == one and listed:
                self.kept[made] = (owner, text, listed, starred, None)
            elif of == one:
                del self.kept[made]

    @rule(script=consumes(scripts), owner=owners)
    def discard(self, script: str, owner: str) -> None:
        may = script in self.written and self.written[script][0] == owner
        if self.allowed(lambda: self.storage.scripts.discard(script, owner=owner), may):
            for one in self.written.pop(script)[1]:
                self.release(one)

    @rule(owner=owners)
    def forget(self, owner: str) -> None:
        self.storage.delete_owner(owner)
        self.kept = {one: kept for one, kept in self.kept.items() if kept[0] != owner}
        self.written = {one: written for one, written in self.written.items() if written[0] != owner}
        self.off.discard(owner)

    @rule()
    def see_own_content(self) -> None:
        """Compare everything: at random moments and at the end, since differences stay."""
        for owner in OWNERS:
            seen = {
                each.id: (each.text, each.starred) for each in self.storage.history.page(owner=owner, limit=500).records
            }
            assert seen == {
                one: (text, starred)
                for one, (whose, text, listed, starred, _) in self.kept.items()
                if whose == owner and listed
            }
            assert self.storage.storage_use(owner=owner).takes == len(FLAC) * sum(
                whose == owner for whose, *_ in self.kept.values()
            )
            assert {each.id for each in self.storage.scripts.list(owner=owner)} == {
                one for one, (whose, _) in self.written.items() if whose == owner
            }
            self.check_cards(owner)

    def check_cards(self, owner: str) -> None:
        for script, (whose, made) in self.written.items():
            if whose == owner:
                assert [
                    (each.position, each.id, each.text, each.take_id)
                    for each in self.storage.scripts.cards(script, owner=owner)
                ] == [(place, one, self.texts[one], self.chosen[one]) for place, one in enumerate(made)]


def test_owners_see_exactly_their_own_content(sqlite_database: Database) -> None:
    OwnerIsolation.database = sqlite_database
    run_state_machine_as_test(OwnerIsolation, settings=settings(deadline=None, max_examples=8, stateful_step_count=25))


def test_counts_of_all_owners_are_read_at_once(url: str) -> None:
    owners = sorted(f"owner {number}" for number in range(7))
    queries: list[str] = []
    with Storage.open(url) as storage:
        storage.voices.share([SampleVoice(voice("Sample"), "I am one.")])
        for number, owner in enumerate(owners):
            for copy in range(number % 3):
                saved = storage.voices.add(voice(f"Voice {copy}"), owner=owner)
                storage.portraits.put(saved.id, PICTURE, owner=owner)
            storage.voices.trash(storage.voices.add(voice("Trash"), owner=owner).id, owner=owner)
            if number % 2:
                storage.consents.add("Ada", "en", b"I agree.", owner=owner)
                take = storage.history.add(spoken(), owner=owner)
                assert take
                storage.history.star(take.id, owner=owner)
            script = storage.scripts.create("Play", [card("One.")], owner=owner)
            storage.scripts.attach(storage.scripts.cards(script.id, owner=owner)[0].id, spoken("One."), owner=owner)

        def note(*given: Any) -> None:
            queries.append(given[2])

        event.listen(Engine, "before_cursor_execute", note)
        try:
            found = storage.all_counts()
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        queries = [query for query in queries if not query.startswith("BEGIN")]
        assert len(queries) == 1
        assert list(found) == owners
        assert found == {owner: storage.owner_counts(owner=owner) for owner in owners}
    counts = found["owner 5"]
    assert (counts.voices, counts.history, counts.starred, counts.scripts, counts.takes) == (2, 2, 1, 1, 1)
    references = voice().references
    each = sum(len(one.clip) + len(codes_to_bytes(one.codes)) for one in references) + len(PICTURE)
    assert counts.storage == StorageUse(2 * each + len(b"I agree."), 2 * len(FLAC))
    assert found["owner 0"].storage == StorageUse(0, len(FLAC))
