"""Archives of voices as the app reads them."""

from pathlib import Path

from studio.voices.voice_archive import VoiceArchive


def read_archive(path: Path, data: bytes, *, own: bool = False) -> list[tuple[str, bytes]]:
    path.write_bytes(data)
    return list(VoiceArchive(path, "mine.zip", own=own).voice_files())
