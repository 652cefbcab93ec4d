"""The voice library: voices in SQLite or PostgreSQL, each owner's apart. Start at `VoiceLibrary.open`."""

from storage.library import VoiceLibrary
from storage.voices import VoiceRecord

__all__ = ["VoiceLibrary", "VoiceRecord"]
