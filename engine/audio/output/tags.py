"""Metadata tags of audio files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import av
import soundfile

from engine.audio.decode import AV_OPTIONS, opened_audio

# FFmpeg's names, and attributes of soundfile. Both use the native tags of a container: ID3 in mp3 and before the frames
# of aac, Vorbis comments in flac and ogg, LIST/INFO in wav.
TAGS = ("artist", "comment", "date")
LONGEST_TAG = 4_000  # maximum characters that are read

Tags = Mapping[str, str]


def set_tags(file: soundfile.SoundFile, tags: Tags) -> None:
    """Set the tags of a new file, before its first samples. Names that are not in `TAGS` are ignored."""
    for name in TAGS:
        if value := tags.get(name):
            year_only = name == "date" and file.format == "MP3"  # libsndfile writes ID3's TYER
            setattr(file, name, value[:4] if year_only else value)


def read_tags(source: bytes | str | Path) -> dict[str, str]:
    """Return the tags of a file by lower-case name. Tags of the audio stream override those of the container.

    Empty if the file is not audio or has no tags. Raises UnusableReference if it cannot be opened.
    """
    with opened_audio(source) as file:
        try:
            with av.open(file, "r", options=AV_OPTIONS, metadata_errors="ignore") as container:
                streams = [stream.metadata for stream in container.streams.audio[:1]]
                found = [container.metadata, *streams]
        except (av.FFmpegError, IndexError, ValueError):
            return {}
    return {name.lower(): value[:LONGEST_TAG] for each in found for name, value in each.items()}
