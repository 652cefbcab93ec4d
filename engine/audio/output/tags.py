"""Tags of audio files: a few words about a file in its own header, written by the encoders and read here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import av
import soundfile

from engine.audio.decode import AV_OPTIONS, opened_audio

# Names of FFmpeg, and attributes of soundfile. Both write them in the way of each container: ID3 in mp3 and before the
# frames of aac, Vorbis comments in flac and ogg, LIST/INFO in wav.
TAGS = ("artist", "comment", "date")
LONGEST_TAG = 4_000  # characters that are read

Tags = Mapping[str, str]


def set_tags(file: soundfile.SoundFile, tags: Tags) -> None:
    """Give a new file its tags, before its first samples. Names that are not in `TAGS` are left out."""
    for name in TAGS:
        if value := tags.get(name):
            year_only = name == "date" and file.format == "MP3"  # libsndfile writes ID3's TYER
            setattr(file, name, value[:4] if year_only else value)


def read_tags(source: bytes | str | Path) -> dict[str, str]:
    """The tags of a file, by lower-case name; those of the sound's own stream before those of the container.

    Empty for a file that is not audio or has none. Raises UnusableReference for a file that cannot be opened.
    """
    with opened_audio(source) as file:
        try:
            with av.open(file, "r", options=AV_OPTIONS, metadata_errors="ignore") as container:
                streams = [stream.metadata for stream in container.streams.audio[:1]]
                found = [container.metadata, *streams]
        except (av.FFmpegError, IndexError, ValueError):
            return {}
    return {name.lower(): value[:LONGEST_TAG] for each in found for name, value in each.items()}
