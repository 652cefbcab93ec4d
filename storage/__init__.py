"""Persistent data in SQLite or PostgreSQL: voices, the history of generations, and scripts, separate for each owner.

`Storage.open` opens a database. Its parts `VoiceLibrary`, `History` and `ScriptLibrary` open one transaction for each
call and are safe in any thread; the queries are in `storage.repositories`. `VoiceLibrary.open` is for voices alone.
"""

from storage.repositories.library.voices import VoiceRecord
from storage.storage import Storage
from storage.voices.library import VoiceLibrary

__all__ = ["Storage", "VoiceLibrary", "VoiceRecord"]
