"""Output files. An existing file is replaced only if all of it can be read as a file of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.errors import InvalidInput
from engine.files.replacement import Target, opened, replace, target_of

PIPE = Path("-")  # as a file: standard input or output
LARGEST = 4 << 30  # bytes of an existing file, which is read before it is replaced
_BLOCK = 1 << 16  # frames decoded at a time


@dataclass(frozen=True)
class Kind:
    """A kind of output file. read: reads a whole file of this kind; raises InvalidInput for any other file."""

    name: str
    read: Callable[[BinaryIO], None]


def check_output(path: Path, kind: Kind) -> Target:
    """Return the target of an output. Raises InvalidInput unless the file is new, empty or of this kind."""
    target = target_of(path)
    if target.status is None:
        return target
    wrong = InvalidInput(f"{path} is there already and is not {kind.name}, so it is not replaced; name another file.")
    if target.status.st_size > LARGEST:
        raise wrong
    with opened(target) as file:
        try:
            if file.read(1):
                file.seek(0)
                kind.read(file)
        except (InvalidInput, OSError) as error:
            raise wrong from error
    return target


def write(path: Path, data: bytes, kind: Kind) -> None:
    """Write an output atomically: the old file stays until the new one is on the disk.

    Raises InvalidInput as `check_output` does, and when the folder is not writable.
    """
    try:
        replaced = replace(check_output(path, kind), data)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error
    if not replaced:
        raise InvalidInput(f"{path} was changed by another program, so it is not replaced; name another file.")


def _read_audio(file: BinaryIO) -> None:
    import soundfile  # imported here to keep commands without audio fast

    try:
        with soundfile.SoundFile(file) as audio:
            if audio.format not in ("WAV", "WAVEX", "FLAC", "MP3", "OGG"):
                raise InvalidInput(f"The file is {audio.format}.")
            frames = 0
            while block := len(audio.read(_BLOCK, dtype="int16")):
                frames += block
            if frames != audio.frames:
                raise InvalidInput(f"The file ends after {frames} of {audio.frames} frames.")
    except soundfile.SoundFileError as error:
        raise InvalidInput(str(error)) from error


def _read_voice(file: BinaryIO) -> None:
    from engine.voice import MAX_FILE_BYTES, Voice

    Voice.from_bytes(file.read(MAX_FILE_BYTES + 1))


AUDIO = Kind("audio of a format that is written here", _read_audio)
VOICE = Kind("a voice file", _read_voice)
