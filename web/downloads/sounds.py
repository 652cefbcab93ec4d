"""Sounds that links hand out: takes in four formats, and the clips of voices.

take   "<id>.<format>", format one of wav, flac, mp3, opus; "<id>" alone is wav. Of the history or of the shelf.
clip   "<voice id>", or "<voice id>.<number>" for another clip than the first: a 16-bit WAV.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast, get_args

from engine.audio.concatenate import FileFormat, TakeAudio, concatenate_takes
from engine.errors import GenerationNotFound, VoiceNotFound
from web.downloads.links import File, Producer

if TYPE_CHECKING:
    from storage import VoiceLibrary
    from studio.takes.kept import Takes

FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
MIMES = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}
FIRST_WORDS = 40  # characters of the text in a file's name


def take_files(takes: Takes) -> Producer:
    """Produces an owner's takes as files, named after the voice and the first words."""

    def produce(owner: str, asked: str) -> File:
        take_id, _, format = asked.partition(".")
        if (format or "wav") not in FORMATS:
            raise GenerationNotFound(f"There are no takes as “{format}”: use {', '.join(FORMATS)}.")
        record = takes.get(take_id, owner=owner)
        chosen = cast(FileFormat, format or "wav")
        name = take_name(record.voice_name, record.text)
        return File(converted(takes.audio(take_id, owner=owner), chosen), f"{name}.{chosen}", MIMES[chosen])

    return produce


def clip_files(library: VoiceLibrary) -> Producer:
    """Produces the clips that voices were made of."""

    def produce(owner: str, asked: str) -> File:
        voice_id, _, number = asked.partition(".")
        voice = library.load(voice_id, owner=owner)
        clips = [reference.clip for reference in voice.references]
        place = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else 0
        if place >= len(clips) or not clips[place]:
            raise VoiceNotFound(f"The voice “{voice.name}” was kept without its recording.")
        return File(converted(clips[place], "wav"), f"{voice.name}.wav", MIMES["wav"])

    return produce


def converted(flac: bytes, format: FileFormat) -> bytes:
    """A kept sound in one of the formats. Raises InvalidInput for one that is damaged."""
    if format == "flac":
        return flac
    file = io.BytesIO()
    concatenate_takes(file, [TakeAudio(flac)], format)
    return file.getvalue()


def take_name(voice: str, text: str) -> str:
    """What a take is saved as, without an ending: "Anna – The rain has stopped"."""
    words = " ".join(text.split())
    if len(words) > FIRST_WORDS:
        cut = words[: FIRST_WORDS + 1].rpartition(" ")[0]
        words = cut or words[:FIRST_WORDS]
    said = words.strip(" .,;:!?…。、！？")
    return f"{voice} – {said}" if said else voice
