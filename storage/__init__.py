"""Persistent data in SQLite or PostgreSQL: voices, the history of takes, and scripts, separate for each owner.

`Storage.open` opens a database. Its parts, such as `VoiceLibrary`, `History` and `ScriptLibrary`, open one transaction
per call and are thread-safe; the queries are in `storage.repositories`.

The public names are imported on first use, so that `storage.scripts.limits` can be imported without SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.repositories.voices.voices import VoiceRecord
    from storage.storage import Storage
    from storage.voices.library import VoiceLibrary

__all__ = ["Storage", "VoiceLibrary", "VoiceRecord"]

_MODULE_OF = {
    "Storage": "storage.storage",
    "VoiceLibrary": "storage.voices.library",
    "VoiceRecord": "storage.repositories.voices.voices",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value
