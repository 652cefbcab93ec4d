"""Archives of voices as the app reads them."""

from pathlib import Path

from studio.voices.voice_archive import VoiceArchive


def read_archive(path: Path, data: bytes) -> list[tuple[str, bytes]]:
    path.write_bytes(data)
    return list(VoiceArchive(path, "mine.zip").voice_files())
