"""Scripts and their cards. Every call is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.messages import UserMessage
from storage.database import Database
from storage.repositories import owner_deletions, owner_settings, takes
from storage.repositories.scripts import card_order, card_takes, cards, runs, scripts
from storage.repositories.scripts.cards import CardRecord
from storage.repositories.scripts.hearings import Hearing
from storage.repositories.scripts.scripts import ScriptRecord
from storage.repositories.takes import NewTake, TakeRecord
from storage.scripts.card_content import CardContent
from storage.validation import LOCAL, Clock, checked_owner, utc_now

ScriptRecords = list[ScriptRecord]  # defined here because `list` and `takes` are methods of the class
CardRecords = list[CardRecord]
TakeRecords = list[TakeRecord]
CardIds = list[str]


@dataclass(frozen=True)
class SpokenScript:
    """A script at one moment. cards: in order. takes: the chosen ones, in their order."""

    script: ScriptRecord
    cards: CardRecords
    takes: TakeRecords


class ScriptLibrary:
    """The scripts of all owners: long texts as cards, with their takes, kept until a script is discarded.

    An owner has no access to the scripts of another. All methods may raise DatabaseUnavailable, and ScriptNotFound for
    an id that is not the owner's script or card. The text, speaker, voice and take of a locked card cannot be changed:
    that raises InvalidInput.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        name: str,
        new: Iterable[CardContent],
        *,
        voice_id: str | None = None,
        author: str = "",
        cover: bytes = b"",
        owner: str = LOCAL,
        deletion_token: str | None = None,
    ) -> ScriptRecord:
        """Create a script of these cards, all in one voice.

        author: of the text. cover: a JPEG, or empty. deletion_token: from `Storage.deletion_token`. Raises InvalidName,
        InvalidInput, VoiceNotFound, OwnerDeleted.
        """
        with self._database.write() as session:
            owner_deletions.refuse_deleted(session=session, owner=owner, before=deletion_token)
            return scripts.create(
                session=session,
                owner=checked_owner(owner),
                name=name,
                cards=new,
                voice_id=voice_id,
                author=author,
                cover=cover,
            )

    def list(self, *, owner: str = LOCAL) -> ScriptRecords:
        """Return the owner's scripts, most recently changed first."""
        with self._database.read() as session:
            return scripts.records(session=session, owner=checked_owner(owner))

    def get(self, script_id: str, *, owner: str = LOCAL) -> ScriptRecord:
        """Return one script."""
        with self._database.read() as session:
            return scripts.record(session=session, script_id=script_id, owner=checked_owner(owner))

    def rename(self, script_id: str, name: str, *, owner: str = LOCAL) -> ScriptRecord:
        """Rename a script; names need not be unique. Raises InvalidName."""
        with self._database.replace() as session:
            return scripts.rename(session=session, script_id=script_id, owner=checked_owner(owner), name=name)

    def set_author(self, script_id: str, author: str, *, owner: str = LOCAL) -> ScriptRecord:
        """Set the author of the text; "" for none. Raises InvalidInput."""
        with self._database.replace() as session:
            return scripts.set_author(session=session, script_id=script_id, owner=checked_owner(owner), author=author)

    def cover(self, script_id: str, *, owner: str = LOCAL) -> bytes:
        """Return the cover of the audio book, a JPEG; empty if there is none."""
        with self._database.read() as session:
            return scripts.cover(session=session, script_id=script_id, owner=checked_owner(owner))

    def set_cover(self, script_id: str, picture: bytes, *, owner: str = LOCAL) -> ScriptRecord:
        """Set the cover of the audio book, a JPEG; an empty one removes it. Raises InvalidInput."""
        with self._database.replace() as session:
            return scripts.set_cover(session=session, script_id=script_id, owner=checked_owner(owner), picture=picture)

    def set_paragraph_pause(self, script_id: str, seconds: float, *, owner: str = LOCAL) -> ScriptRecord:
        """Set the seconds of silence after each paragraph, 0 to 60; pauses set by hand stay. Raises InvalidInput."""
        with self._database.write() as session:
            return scripts.set_paragraph_pause(
                session=session, script_id=script_id, owner=checked_owner(owner), seconds=seconds
            )

    def set_speeds(self, script_id: str, speed: float, *, owner: str = LOCAL) -> None:
        """Set the playback speed of the takes of all cards, 0.5 to 2, preserving pitch. Raises InvalidInput."""
        with self._database.write() as session:
            scripts.set_speeds(session=session, script_id=script_id, owner=checked_owner(owner), speed=speed)

    def discard(self, script_id: str, *, owner: str = LOCAL) -> None:
        """Delete a script and its takes, except those in the history."""
        self._database.delete(
            lambda session: scripts.remove(session=session, script_id=script_id, owner=checked_owner(owner))
        )

    def cards(self, script_id: str, *, owner: str = LOCAL) -> CardRecords:
        """Return all cards of a script in order, without sound."""
        with self._database.read() as session:
            return cards.records(session=session, script_id=script_id, owner=checked_owner(owner))

    def card(self, card_id: str, *, owner: str = LOCAL) -> CardRecord:
        """Return one card."""
        with self._database.read() as session:
            return cards.record(session=session, card_id=card_id, owner=checked_owner(owner))

    def insert(
        self, script_id: str, position: int, card: CardContent, *, voice_id: str | None = None, owner: str = LOCAL
    ) -> CardRecord:
        """Insert a new card; later cards shift by one. Raises InvalidInput, VoiceNotFound."""
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
        """Delete a card and its takes, except those in the history."""
        self._database.delete(
            lambda session: card_order.remove(session=session, card_id=card_id, owner=checked_owner(owner))
        )

    def delete_chapters(self, script_id: str, card_ids: Collection[str], *, owner: str = LOCAL) -> None:
        """Delete the chapters that begin with these cards, and their takes, except those in the history.

        The first chapter begins with the first card. Raises InvalidInput if a card is locked.
        """
        self._database.delete(
            lambda session: card_order.remove_chapters(
                session=session, script_id=script_id, owner=checked_owner(owner), card_ids=frozenset(card_ids)
            )
        )

    def move(self, card_id: str, position: int, *, owner: str = LOCAL) -> CardRecord:
        """Move a card to another position. Raises InvalidInput."""
        with self._database.write() as session:
            return card_order.move(session=session, card_id=card_id, owner=checked_owner(owner), position=position)

    def edit(self, card_id: str, text: str, *, owner: str = LOCAL) -> CardRecord:
        """Change a card's text; then no take is chosen. Raises InvalidInput."""
        with self._database.replace() as session:
            return cards.edit(session=session, card_id=card_id, owner=checked_owner(owner), text=text)

    def split(self, card_id: str, at: int, *, pause: float = 0.2, owner: str = LOCAL) -> tuple[CardRecord, CardRecord]:
        """Split a card before the character `at`. pause: seconds between the parts. Raises InvalidInput."""
        with self._database.replace() as session:
            return card_order.split(session=session, card_id=card_id, owner=checked_owner(owner), at=at, pause=pause)

    def merge(self, card_id: str, *, owner: str = LOCAL) -> CardRecord:
        """Merge a card with the next one of the same speaker. Raises InvalidInput."""
        return self._database.delete(
            lambda session: card_order.merge(session=session, card_id=card_id, owner=checked_owner(owner))
        )

    def lock(self, card_id: str, locked: bool = True, *, owner: str = LOCAL) -> CardRecord:
        """Lock or unlock a card. A locked card leaves the queue."""
        with self._database.write() as session:
            return cards.set_locked(session=session, card_id=card_id, owner=checked_owner(owner), locked=locked)

    def set_pause(self, card_id: str, pause: float, *, owner: str = LOCAL) -> CardRecord:
        """Set the seconds of silence after a card, 0 to 60. Raises InvalidInput."""
        with self._database.write() as session:
            return cards.set_pause(session=session, card_id=card_id, owner=checked_owner(owner), pause=pause)

    def set_speed(self, card_id: str, speed: float, *, owner: str = LOCAL) -> CardRecord:
        """Set the playback speed of a card's takes, 0.5 to 2, preserving pitch. Raises InvalidInput."""
        with self._database.write() as session:
            return cards.set_speed(session=session, card_id=card_id, owner=checked_owner(owner), speed=speed)

    def set_chapter(self, card_id: str, title: str | None, *, owner: str = LOCAL) -> CardRecord:
        """Begin a chapter with a card; None removes it. Raises InvalidInput."""
        with self._database.replace() as session:
            return cards.set_chapter(session=session, card_id=card_id, owner=checked_owner(owner), title=title)

    def set_speaker(self, card_id: str, speaker: str | None, *, owner: str = LOCAL) -> CardRecord:
        """Change a card's speaker (None: the narrator) but not its voice. Raises InvalidInput."""
        with self._database.replace() as session:
            return cards.set_speaker(session=session, card_id=card_id, owner=checked_owner(owner), speaker=speaker)

    def set_voice(self, card_id: str, voice_id: str | None, *, owner: str = LOCAL) -> CardRecord:
        """Change a card's voice (None: no voice), and choose the newest take that fits. Raises VoiceNotFound."""
        with self._database.write() as session:
            return cards.set_voice(session=session, card_id=card_id, owner=checked_owner(owner), voice_id=voice_id)

    def cast(self, script_id: str, speaker: str | None, voice_id: str | None, *, owner: str = LOCAL) -> int:
        """Set the voice of all unlocked cards of a speaker (None: the narrator); return their number.

        Raises VoiceNotFound, InvalidInput.
        """
        with self._database.write() as session:
            return cards.cast(
                session=session, script_id=script_id, owner=checked_owner(owner), speaker=speaker, voice_id=voice_id
            )

    def queue(self, script_id: str, card_ids: Sequence[str] | None = None, *, owner: str = LOCAL) -> int:
        """Queue the given cards, or all without a chosen take, except locked ones; return their number."""
        with self._database.replace() as session:
            return card_takes.queue(session=session, script_id=script_id, owner=checked_owner(owner), card_ids=card_ids)

    def unqueue(self, script_id: str, *, owner: str = LOCAL) -> int:
        """Remove all cards of a script from the queue, and end the runs of all processes; return their number."""
        with self._database.replace() as session:
            return card_takes.unqueue(session=session, script_id=script_id, owner=checked_owner(owner))

    def queued(self, script_id: str, limit: int = 2, *, owner: str = LOCAL) -> CardRecords:
        """Return the first queued cards in order. The queue persists across restarts."""
        with self._database.read() as session:
            return card_takes.queued(session=session, script_id=script_id, owner=checked_owner(owner), limit=limit)

    def claim(self, script_id: str, run_id: str, *, owner: str = LOCAL) -> CardRecord | None:
        """Claim the first queued card that no run speaks, in any process; None if there is none.

        The claim ends with `attach`, `fail` or `release`, and lapses some time after the run's last claim or renewal.
        """
        with self._database.write() as session:
            return runs.claim(
                session=session, script_id=script_id, owner=checked_owner(owner), run_id=run_id, now=self._clock()
            )

    def others_speak(self, script_id: str, run_id: str, *, owner: str = LOCAL) -> bool:
        """Whether another run speaks any queued card of the script."""
        with self._database.read() as session:
            return runs.others_speak(session=session, script_id=script_id, owner=checked_owner(owner), run_id=run_id)

    def renew(self, run_id: str) -> bool:
        """Renew a run's claims; return False if it was ended by `unqueue`, or has lapsed and lost them."""
        with self._database.write() as session:
            return runs.renew(session=session, run_id=run_id, now=self._clock())

    def release(self, card_id: str, run_id: str, *, owner: str = LOCAL) -> None:
        """End a run's claim of a card, which stays queued. Raises ClaimLost if it has none."""
        with self._database.write() as session:
            cards.lock_script(session=session, card_id=card_id, owner=checked_owner(owner))
            runs.release(session=session, card_id=card_id, run_id=run_id)

    def end_run(self, script_id: str, run_id: str, *, owner: str = LOCAL) -> None:
        """End a run and its claims."""
        with self._database.write() as session:
            runs.end(session=session, script_id=script_id, owner=checked_owner(owner), run_id=run_id)

    def speaking(self, *, owner: str = LOCAL) -> dict[str, CardIds]:
        """Return the cards that are being spoken in any process, by script, for all scripts that have a run."""
        with self._database.read() as session:
            return runs.speaking(session=session, owner=checked_owner(owner), now=self._clock())

    def fail(self, card_id: str, failure: UserMessage, *, owner: str = LOCAL, run_id: str | None = None) -> CardRecord:
        """Store why a card could not be spoken, as a message for its author. run_id: as for `attach`.

        Raises InvalidInput, ClaimLost.
        """
        with self._database.replace() as session:
            return card_takes.fail(
                session=session, card_id=card_id, owner=checked_owner(owner), failure=failure, run_id=run_id
            )

    def attach(
        self,
        card_id: str,
        take: NewTake,
        *,
        owner: str = LOCAL,
        run_id: str | None = None,
        replaces: str | None = None,
        hearing: Hearing | None = None,
    ) -> CardRecord:
        """Store a take of a card until the script is discarded, even if the owner keeps no history.

        It is chosen unless the card's text or voice has changed meanwhile, or the card was locked with a take.
        run_id: the run that claimed the card; its claim ends. Raises ClaimLost, and stores nothing, if it has none.
        replaces: the take that it is a repair of; it is not chosen either if another one was chosen meanwhile, or if
        the card was queued. hearing: of the take.
        """
        with self._database.storing([take.audio]) as (sound,), self._database.write() as session:
            listed = owner_settings.load(session=session, owner=checked_owner(owner)).history
            return card_takes.attach(
                session=session,
                card_id=card_id,
                owner=owner,
                take=take,
                now=self._clock(),
                listed=listed,
                sound=sound,
                run_id=run_id,
                replaces=replaces,
                hearing=hearing,
            )

    def choose(self, card_id: str, take_id: str, *, owner: str = LOCAL) -> CardRecord:
        """Choose one of the card's takes. Raises InvalidInput."""
        with self._database.write() as session:
            return card_takes.choose(session=session, card_id=card_id, owner=checked_owner(owner), take_id=take_id)

    def takes(self, card_id: str, *, owner: str = LOCAL) -> TakeRecords:
        """Return all takes of a card, newest first, without sound."""
        with self._database.read() as session:
            return card_takes.records(session=session, card_id=card_id, owner=checked_owner(owner))

    def spoken(self, script_id: str, *, owner: str = LOCAL) -> SpokenScript:
        """Return a script with its cards and chosen takes, all as of one moment, without sound."""
        owner = checked_owner(owner)
        with self._database.read() as session:
            return SpokenScript(
                scripts.record(session=session, script_id=script_id, owner=owner),
                cards.records(session=session, script_id=script_id, owner=owner),
                card_takes.chosen(session=session, script_id=script_id, owner=owner),
            )

    def sounds(self, spoken: Iterable[CardRecord], *, owner: str = LOCAL) -> Iterator[tuple[CardRecord, bytes]]:
        """Iterate over the cards that have a chosen take, each with its sound (FLAC), read lazily.

        Raises TakeNotFound if a take is deleted meanwhile.
        """
        for card in spoken:
            if card.take_id is not None:
                with self._database.read() as session:
                    sound = takes.audio(session=session, take_id=card.take_id, owner=checked_owner(owner))
                yield card, sound
