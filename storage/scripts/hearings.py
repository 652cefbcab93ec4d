"""Recogniser transcripts of the takes of scripts. Every call is one transaction."""

from __future__ import annotations

from storage.database import Database
from storage.repositories.scripts import hearings
from storage.repositories.scripts.hearings import Hearing
from storage.validation import LOCAL, checked_owner


class Hearings:
    """The hearings of all owners, deleted with their takes. Methods may raise DatabaseUnavailable, ScriptNotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_script(self, script_id: str, *, owner: str = LOCAL) -> dict[str, Hearing]:
        """Return the hearings of a script's chosen takes, by take."""
        with self._database.read() as session:
            return hearings.of_script(session=session, script_id=script_id, owner=checked_owner(owner))

    def keep(self, card_id: str, take_id: str, hearing: Hearing, *, owner: str = LOCAL) -> None:
        """Store the hearing of a card's take. Raises InvalidInput if the card has no such take."""
        with self._database.replace() as session:
            hearings.keep(
                session=session, card_id=card_id, take_id=take_id, owner=checked_owner(owner), hearing=hearing
            )
