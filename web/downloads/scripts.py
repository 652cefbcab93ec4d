"""Whole scripts as downloads: all takes with their pauses in one file, or subtitles of them.

script   "<id>.<format>", format one of wav, flac, mp3, opus, srt, vtt, md
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

from engine.audio.concatenate import FileFormat, TakeAudio, concatenate_takes
from engine.errors import InvalidInput, ScriptNotFound
from studio.origin import Origin
from studio.script import Cue, cues, to_markdown, to_srt, to_vtt
from web.downloads.links import DownloadFile, DownloadStream, FileProducer
from web.downloads.sounds import FORMATS, MIMES

if TYPE_CHECKING:
    from storage.script_library import ScriptLibrary

SUBTITLES: dict[str, tuple[Callable[[list[Cue]], str], str]] = {
    "srt": (to_srt, "application/x-subrip"),
    "vtt": (to_vtt, "text/vtt"),
}
SCRIPT_FORMATS = (*FORMATS, *SUBTITLES, "md")


def script_producer(scripts: ScriptLibrary) -> FileProducer:
    """Produce the spoken cards of an owner's scripts."""

    def produce(owner: str, asked: str) -> DownloadFile | DownloadStream:
        script_id, _, format = asked.partition(".")
        if format not in SCRIPT_FORMATS:
            raise ScriptNotFound("cards.format", format=format, formats=", ".join(SCRIPT_FORMATS))
        name = f"{scripts.get(script_id, owner=owner).name}.{format}"
        if format in SUBTITLES:
            return DownloadFile(_subtitles(scripts, owner, script_id, format), name, SUBTITLES[format][1])
        if format == "md":
            return DownloadFile(to_markdown(scripts.cards(script_id, owner=owner)).encode(), name, "text/markdown")
        sound = cast(FileFormat, format)
        return DownloadStream(_sound(scripts, owner, script_id, sound), name, MIMES[sound])

    return produce


def _subtitles(scripts: ScriptLibrary, owner: str, script_id: str, format: str) -> bytes:
    shown = cues(scripts.cards(script_id, owner=owner))
    if not shown:
        raise InvalidInput("cards.unspoken")
    return SUBTITLES[format][0](shown).encode()


def _sound(scripts: ScriptLibrary, owner: str, script_id: str, format: FileFormat) -> BinaryIO:
    """An anonymous temporary file, which is gone when it is closed."""
    origin = Origin.joined(map(Origin.of_record, scripts.chosen(script_id, owner=owner)))
    takes = (TakeAudio(sound, card.pause, card.speed) for card, sound in scripts.sounds(script_id, owner=owner))
    file = tempfile.TemporaryFile()  # noqa: SIM115  # closed after it was sent
    try:
        concatenate_takes(file, takes, format, origin.tags())
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file
