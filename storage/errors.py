"""The errors of the library.

LibraryError             the voice library refuses an operation
├── NameTaken            the owner already has a voice of that name, or a key has it
├── VoiceNotFound        no such voice for this owner
├── TakeNotFound         no such take for this owner
├── ScriptNotFound       no such script, or no such card of one, for this owner
├── ClaimLost            a run's claim of a card has ended; its take is not stored
├── VoiceChanged         the voice was changed since it was read
├── KeyNotFound          no such key
├── ConsentNotFound      no such recorded consent for this owner
├── VoiceProtected       a sample voice, shared by everyone and read-only
├── OwnerDeleted         all data of the owner was deleted since the operation began; nothing is stored
└── DatabaseUnavailable  the database cannot be opened or used, or is of a newer version
    └── DiskFull         its disk is full; nothing was changed
"""

from engine.errors import RepriseError
from engine.messages import Value


class LibraryError(RepriseError):
    """The voice library refuses an operation."""


class NameTaken(LibraryError):
    """The owner already has a voice of that name, or a key has it."""


class VoiceNotFound(LibraryError, LookupError):
    """No such voice for this owner."""


class TakeNotFound(LibraryError, LookupError):
    """No such take for this owner."""


class ScriptNotFound(LibraryError, LookupError):
    """No such script, or no such card of one, for this owner."""


class ClaimLost(LibraryError):
    """A run's claim of a card has ended: the script was stopped, or another run speaks the card."""


class VoiceChanged(LibraryError):
    """The voice was changed since it was read; nothing is stored."""


class KeyNotFound(LibraryError, LookupError):
    """No such key."""


class ConsentNotFound(LibraryError, LookupError):
    """No such recorded consent for this owner."""


class VoiceProtected(LibraryError):
    """A sample voice: shared by everyone, and never renamed, changed or deleted."""


class OwnerDeleted(LibraryError):
    """All data of the owner was deleted since the operation began; nothing is stored."""

    def __init__(self) -> None:
        super().__init__("database.owner_deleted")


class DatabaseUnavailable(LibraryError):
    """The database cannot be opened or used, or was written by a newer version.

    detail: the database's location and its own message, for the log and the command line; never shown on a page.
    """

    def __init__(self, key: str, /, *, detail: str = "", **values: Value) -> None:
        super().__init__(key, **values)
        self.detail = detail


class DiskFull(DatabaseUnavailable):
    """The disk of the database is full; nothing was changed."""
