"""Persistent data in SQLite or PostgreSQL: voices, the history of takes, and scripts, separate for each owner.

`Storage.open` opens a database. Its parts, such as `VoiceLibrary`, `History` and `ScriptLibrary`, open one transaction
per call and are thread-safe; the queries are in `storage.repositories`.
"""

from storage.repositories.voices.voices import VoiceRecord
from storage.storage import Storage
from storage.voices.library import VoiceLibrary

__all__ = ["Storage", "VoiceLibrary", "VoiceRecord"]
