"""Voices as downloads: one portable file, or all of an owner's voices in one archive.

voice    "<voice id>"
voices   "all"
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from engine.voice import VOICE_FILE_SUFFIX
from storage.errors import VoiceNotFound
from studio.voices.voice_archive import write_voice_archive
from web.downloads.links import DownloadFile, DownloadStream, FileProducer

if TYPE_CHECKING:
    from storage import VoiceLibrary

ARCHIVE_NAME = "Reprise voices.zip"


def voice_producer(library: VoiceLibrary) -> FileProducer:
    """Return a producer for an owner's voices as portable files."""

    def produce(owner: str, voice_id: str) -> DownloadFile:
        record = library.get(voice_id, owner=owner)
        data = library.export_voice(voice_id, owner=owner)
        return DownloadFile(data, record.name + VOICE_FILE_SUFFIX, "application/octet-stream")

    return produce


def archive_producer(library: VoiceLibrary) -> FileProducer:
    """Return a producer for an archive of all voices that an owner made."""

    def produce(owner: str, asked: str) -> DownloadStream:
        voices = [voice for voice in library.list(owner=owner) if not voice.shared]
        if asked != "all" or not voices:
            raise VoiceNotFound("voices.none_own")
        file = tempfile.TemporaryFile()  # noqa: SIM115  # unnamed: gone once it is closed
        try:
            write_voice_archive(file, library, voices)
        except BaseException:
            file.close()
            raise
        return DownloadStream(file, ARCHIVE_NAME, "application/zip")

    return produce
