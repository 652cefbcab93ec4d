"""What is kept: voices, what was spoken in them, and scripts, in SQLite or PostgreSQL, each owner's apart.

Start at `Studio.open`; who needs the voices alone, at `VoiceLibrary.open`.
"""

from storage.library import VoiceLibrary
from storage.studio import Studio
from storage.voices import VoiceRecord

__all__ = ["Studio", "VoiceLibrary", "VoiceRecord"]
