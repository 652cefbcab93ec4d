"""Persistent data in SQLite or PostgreSQL: voices, the history of generations, and scripts, separate for each owner.

`Storage.open` opens a database. Its parts `VoiceLibrary`, `History` and `ScriptLibrary` open one transaction for each
call and are safe in any thread; the queries are in `storage.repositories`. `VoiceLibrary.open` is for voices alone.
"""

from storage.library import VoiceLibrary
from storage.repositories.voices import VoiceRecord
from storage.storage import Storage

__all__ = ["Storage", "VoiceLibrary", "VoiceRecord"]
