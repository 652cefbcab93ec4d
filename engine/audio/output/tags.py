"""Metadata tags of audio files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import av
import soundfile

from engine.audio.decode import AV_OPTIONS, opened_audio
from engine.audio.output.id3 import FileAfterTag, id3_tag

# FFmpeg's names, and attributes of soundfile. Both use the native tags of a container: ID3 in mp3 and before the frames
# of aac, Vorbis comments in flac and ogg, LIST/INFO in wav.
TAGS = ("title", "artist", "comment", "date")
LONGEST_TAG = 4_000  # maximum characters that are read

Tags = Mapping[str, str]


def new_sound_file(file: BinaryIO, rate: int, container: str, coding: str, tags: Tags) -> soundfile.SoundFile:
    """Open a mono file for samples, after its tags. Names of tags that are not in `TAGS` are ignored.

    rate: in Hz. container, coding: as libsndfile names them.
    """
    if container == "MP3":
        file.write(id3_tag(tags))
        return soundfile.SoundFile(FileAfterTag(file), "w", rate, channels=1, format=container, subtype=coding)
    sound = soundfile.SoundFile(file, "w", rate, channels=1, format=container, subtype=coding)
    for name in TAGS:
        if value := tags.get(name):
            setattr(sound, name, value)
    return sound


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
