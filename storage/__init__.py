"""What is kept: voices, what was spoken in them, and scripts, in SQLite or PostgreSQL, each owner's apart.

Start at `Studio.open`; who needs the voices alone, at `VoiceLibrary.open`.
"""

from storage.library import VoiceLibrary
from storage.repositories.voices import VoiceRecord
from storage.storage import Studio

__all__ = ["Studio", "VoiceLibrary", "VoiceRecord"]
