"""API keys. Every call is one transaction."""

from __future__ import annotations

from engine.errors import InvalidInput, InvalidName
from engine.voice import MAX_NAME, clean_name
from storage.database import Database
from storage.repositories import api_keys
from storage.repositories.api_keys import Allowance, KeyRecord, NewKey
from storage.validation import Clock, checked_owner, utc_now

KeyRecords = list[KeyRecord]  # defined here because `list` is a method of the class
LONGEST_PERIOD = 400 * 24 * 3600  # seconds of an allowance


class ApiKeys:
    """The keys of all owners. All methods may raise DatabaseUnavailable."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(self, new: NewKey) -> tuple[KeyRecord, str]:
        """Create a key. Return its record and the key itself, which is not stored.

        Raises InvalidInput for an invalid allowance, name or owner, or an expiry in the past; NameTaken.
        """
        for allowance in (new.rate, new.quota):
            if allowance and not (0 < allowance.amount < 2**31 and 0 < allowance.seconds <= LONGEST_PERIOD):
                raise InvalidInput("A limit allows at least one in a time of up to a year; leave it out for no limit.")
        now = self._clock()
        if new.expires and new.expires <= now:
            raise InvalidInput("The key would have expired already; choose a later time.")
        checked = NewKey(_key_name(new.name), checked_owner(new.owner), new.expires, new.rate, new.quota, new.voices)
        with self._database.write() as session:
            return api_keys.create(session=session, new=checked, now=now)

    def list(self) -> KeyRecords:
        """Return all keys, including expired ones, by name."""
        with self._database.read() as session:
            return api_keys.records(session=session, now=self._clock())

    def find(self, key: str) -> KeyRecord | None:
        """Return the record of a key that is valid now, None for any other text."""
        with self._database.read() as session:
            return api_keys.find(session=session, key=key, now=self._clock())

    def get(self, key_id: str) -> KeyRecord | None:
        """Return the record of the key with an id if it is valid now, None if it was revoked or has expired."""
        with self._database.read() as session:
            return api_keys.get(session=session, key_id=key_id, now=self._clock())

    def any(self) -> bool:
        """Whether there is any key, expired ones included."""
        with self._database.read() as session:
            return api_keys.any_key(session=session)

    def revoke(self, name: str) -> None:
        """Delete a key; from then on it is refused. Raises KeyNotFound."""
        with self._database.write() as session:
            api_keys.revoke(session=session, name=_key_name(name))

    def spend(self, key_id: str, characters: int) -> bool:
        """Count characters against a key's quota. Return False, and count none, if they would exceed it.

        Also False for a key that has been revoked. A negative number returns characters within the period.
        """
        with self._database.write() as session:
            return api_keys.spend(session=session, key_id=key_id, characters=characters, now=self._clock())


def _key_name(name: str) -> str:
    """Return a key's name, cleaned like that of a voice. Raises InvalidInput."""
    try:
        return clean_name(name)
    except InvalidName as error:
        raise InvalidInput(
            f"A key needs a name of at most {MAX_NAME} characters, without control characters."
        ) from error


__all__ = ["Allowance", "ApiKeys", "KeyRecord", "NewKey"]
