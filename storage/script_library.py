"""Scripts as the rest of the product sees them: every call one transaction, safe from any thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from storage.checks import Settings, checked_owner
from storage.database import Database
from storage.history import Clock, utc_now
from storage.library import LOCAL
from storage.repositories import card_order, cards, generations, owner_settings, scripts, takes
from storage.repositories.cards import CardRecord
from storage.repositories.generations import GenerationRecord, Spoken
from storage.repositories.scripts import NewCard, ScriptRecord

Records = list[ScriptRecord]  # named here because inside the class `list` is the method
Cards = list[CardRecord]
Takes = list[GenerationRecord]


class ScriptLibrary:
    """Long texts as cards, with their takes: whatever happens, what was done is kept until a script is discarded.

    Each owner's apart, as voices are. All methods may raise DatabaseUnavailable, and ScriptNotFound for an id that
    is not of one of the owner's scripts or cards. What a locked card keeps (its text, speaker, voice and take)
    cannot be changed: that raises InvalidInput.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(
        self, name: str, new: Iterable[NewCard], *, voice_id: str | None = None, owner: str = LOCAL
    ) -> ScriptRecord:
        """A script of these cards, all in one voice. Raises InvalidName, InvalidInput, VoiceNotFound."""
        with self._database.write() as session:
            return scripts.create(session=session, owner=checked_owner(owner), name=name, cards=new, voice_id=voice_id)

    def list(self, *, owner: str = LOCAL) -> Records:
        """The owner's scripts, the one changed last first."""
        with self._database.read() as session:
            return scripts.records(session=session, owner=checked_owner(owner))

    def get(self, script_id: str, *, owner: str = LOCAL) -> ScriptRecord:
        """What a list shows of one script."""
        with self._database.read() as session:
            return scripts.record(session=session, script_id=script_id, owner=checked_owner(owner))

    def rename(self, script_id: str, name: str, *, owner: str = LOCAL) -> ScriptRecord:
        """Give a script another name; several may have the same. Raises InvalidName."""
        with self._database.replace() as session:
            return scripts.rename(session=session, script_id=script_id, owner=checked_owner(owner), name=name)

    def discard(self, script_id: str, *, owner: str = LOCAL) -> None:
        """Delete a script and its takes; those that are in the history too stay there."""
        self._database.delete(
            lambda session: scripts.remove(session=session, script_id=script_id, owner=checked_owner(owner))
        )

    def cards(self, script_id: str, *, owner: str = LOCAL) -> Cards:
        """All cards of a script, in order, without sound."""
        with self._database.read() as session:
            return cards.records(session=session, script_id=script_id, owner=checked_owner(owner))

    def card(self, card_id: str, *, owner: str = LOCAL) -> CardRecord:
        """One card."""
        with self._database.read() as session:
            return cards.record(session=session, card_id=card_id, owner=checked_owner(owner))

    def insert(
        self, script_id: str, position: int, card: NewCard, *, voice_id: str | None = None, owner: str = LOCAL
    ) -> CardRecord:
        """A new card; what was at its position and after it moves on. Raises InvalidInput, VoiceNotFound."""
        with self._database.write() as session:
            return card_order.insert(
                session=session,
                script_id=script_id,
                owner=checked_owner(owner),
                position=position,
                card=card,
                voice_id=voice_id,
            )

    def delete_card(self, card_id: str, *, owner: str = LOCAL) -> None:
        """Delete a card and its takes; those that are in the history too stay there."""
        self._database.delete(
            lambda session: card_order.remove(session=session, card_id=card_id, owner=checked_owner(owner))
        )

    def move(self, card_id: str, position: int, *, owner: str = LOCAL) -> CardRecord:
        """Bring a card to another position. Raises InvalidInput."""
        with self._database.write() as session:
            return card_order.move(session=session, card_id=card_id, owner=checked_owner(owner), position=position)

    def edit(self, card_id: str, text: str, *, owner: str = LOCAL) -> CardRecord:
        """Give a card another text; its take counts no more. Raises InvalidInput."""
        with self._database.replace() as session:
            return cards.edit(session=session, card_id=card_id, owner=checked_owner(owner), text=text)

    def split(self, card_id: str, at: int, *, pause: float = 0.2, owner: str = LOCAL) -> tuple[CardRecord, CardRecord]:
        """Part a card before the character `at`, with a pause of so many seconds between. Raises InvalidInput."""
        with self._database.replace() as session:
            return card_order.split(session=session, card_id=card_id, owner=checked_owner(owner), at=at, pause=pause)

    def merge(self, card_id: str, *, owner: str = LOCAL) -> CardRecord:
        """Make one card of this and the next of the same speaker. Raises InvalidInput."""
        return self._database.delete(
            lambda session: card_order.merge(session=session, card_id=card_id, owner=checked_owner(owner))
        )

    def lock(self, card_id: str, locked: bool = True, *, owner: str = LOCAL) -> CardRecord:
        """Lock a card, so that its words and its take stay; or unlock it."""
        with self._database.write() as session:
            return cards.set_locked(session=session, card_id=card_id, owner=checked_owner(owner), locked=locked)

    def set_pause(self, card_id: str, pause: float, *, owner: str = LOCAL) -> CardRecord:
        """Seconds of silence after a card, 0 to 60. Raises InvalidInput."""
        with self._database.write() as session:
            return cards.set_pause(session=session, card_id=card_id, owner=checked_owner(owner), pause=pause)

    def set_speaker(self, card_id: str, speaker: str | None, *, owner: str = LOCAL) -> CardRecord:
        """Say whose words these are; None: the narrator's. The voice stays. Raises InvalidInput."""
        with self._database.replace() as session:
            return cards.set_speaker(session=session, card_id=card_id, owner=checked_owner(owner), speaker=speaker)

    def set_voice(self, card_id: str, voice_id: str | None, *, owner: str = LOCAL) -> CardRecord:
        """Give a card a voice; its take counts no more. None: the voice of the whole script. Raises VoiceNotFound."""
        with self._database.write() as session:
            return cards.set_voice(session=session, card_id=card_id, owner=checked_owner(owner), voice_id=voice_id)

    def cast(self, script_id: str, speaker: str | None, voice_id: str | None, *, owner: str = LOCAL) -> int:
        """Give all cards of a speaker a voice (None: the narrator's), but for locked ones; returns how many.

        Raises VoiceNotFound.
        """
        with self._database.write() as session:
            return cards.cast(
                session=session, script_id=script_id, owner=checked_owner(owner), speaker=speaker, voice_id=voice_id
            )

    def configure(
        self, card_id: str, *, seed: int | None = None, settings: Settings | None = None, owner: str = LOCAL
    ) -> CardRecord:
        """How a card is to be spoken the next time; what is not given is as for everything. Raises InvalidInput."""
        with self._database.replace() as session:
            return cards.configure(
                session=session, card_id=card_id, owner=checked_owner(owner), seed=seed, settings=settings or {}
            )

    def queue(self, script_id: str, card_ids: Sequence[str] | None = None, *, owner: str = LOCAL) -> int:
        """Have these cards spoken, or all that have no take; locked ones stay. Returns how many."""
        with self._database.replace() as session:
            return takes.queue(session=session, script_id=script_id, owner=checked_owner(owner), card_ids=card_ids)

    def unqueue(self, script_id: str, *, owner: str = LOCAL) -> int:
        """Have no more cards spoken; returns how many were waiting."""
        with self._database.replace() as session:
            return takes.unqueue(session=session, script_id=script_id, owner=checked_owner(owner))

    def waiting(self, script_id: str, limit: int = 2, *, owner: str = LOCAL) -> Cards:
        """The first cards that are to be spoken, in order; they wait on, also when the process ends."""
        with self._database.read() as session:
            return takes.waiting(session=session, script_id=script_id, owner=checked_owner(owner), limit=limit)

    def fail(self, card_id: str, failure: str, *, owner: str = LOCAL) -> CardRecord:
        """Note why a card could not be spoken, in a sentence for its author. Raises InvalidInput."""
        with self._database.replace() as session:
            return takes.fail(session=session, card_id=card_id, owner=checked_owner(owner), failure=failure)

    def attach(self, card_id: str, spoken: Spoken, *, owner: str = LOCAL) -> CardRecord:
        """Keep what was spoken as the card's take. It is kept without a history too, until the script is discarded.

        It counts unless the card has other words or another voice meanwhile, or was locked with a take.
        """
        with self._database.write() as session:
            listed = owner_settings.load(session=session, owner=checked_owner(owner)).history
            return takes.attach(
                session=session, card_id=card_id, owner=owner, spoken=spoken, now=self._clock(), listed=listed
            )

    def choose(self, card_id: str, generation_id: str, *, owner: str = LOCAL) -> CardRecord:
        """Have another of the card's takes count. Raises InvalidInput."""
        with self._database.write() as session:
            return takes.choose(
                session=session, card_id=card_id, owner=checked_owner(owner), generation_id=generation_id
            )

    def takes(self, card_id: str, *, owner: str = LOCAL) -> Takes:
        """All takes of a card, newest first, without sound."""
        with self._database.read() as session:
            return takes.records(session=session, card_id=card_id, owner=checked_owner(owner))

    def sounds(self, script_id: str, *, owner: str = LOCAL) -> Iterator[tuple[CardRecord, bytes]]:
        """The cards that have a take, in order, each with its sound (FLAC), read when it is asked for.

        Raises GenerationNotFound when a take is deleted meanwhile.
        """
        for card in self.cards(script_id, owner=owner):
            if card.take_id is not None:
                with self._database.read() as session:
                    sound = generations.audio(session=session, generation_id=card.take_id, owner=owner)
                yield card, sound
