"""Whole scripts as downloads: all takes with their pauses in one file, cards in an archive, subtitles, or text.

script   "<id>.<format>", format one of wav, flac, mp3, opus, m4b, wav.zip, flac.zip, mp3.zip, opus.zip, srt, vtt, md;
         "<id>.<format>~16" at -16 LUFS
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from engine.errors import InvalidInput
from storage.errors import ScriptNotFound
from studio.audio_files.concatenate import FileFormat
from studio.files.file_names import short_stem
from studio.script import Cue, cues, to_markdown, to_srt, to_vtt
from studio.script.export import ScriptExport
from web.downloads.links import DownloadFile, DownloadStream, FileProducer
from web.downloads.sounds import FORMATS, MIMES, split_loudness

if TYPE_CHECKING:
    from storage.scripts.script_library import ScriptLibrary

SUBTITLES: dict[str, tuple[Callable[[list[Cue]], str], str]] = {
    "srt": (to_srt, "application/x-subrip"),
    "vtt": (to_vtt, "text/vtt"),
}
ZIP = ".zip"
AUDIOBOOK = "m4b"
SCRIPT_FORMATS = (*FORMATS, AUDIOBOOK, *(f"{format}{ZIP}" for format in FORMATS), *SUBTITLES, "md")


def script_producer(scripts: ScriptLibrary) -> FileProducer:
    """Return a producer for an owner's scripts, in any of `SCRIPT_FORMATS`."""

    def produce(owner: str, asked: str) -> DownloadFile | DownloadStream:
        item, lufs = split_loudness(asked)
        script_id, _, format = item.partition(".")
        if format not in SCRIPT_FORMATS:
            raise ScriptNotFound("cards.format", format=format, formats=tuple(SCRIPT_FORMATS))
        script = scripts.get(script_id, owner=owner)
        name = f"{short_stem(script.name).rstrip(' .') or 'file'}.{format}"
        if format in SUBTITLES:
            return DownloadFile(_subtitles(scripts, owner, script_id, format), name, SUBTITLES[format][1])
        if format == "md":
            cards = scripts.cards(script_id, owner=owner)
            text = to_markdown(cards, script.paragraph_pause, title=script.name, author=script.author)
            return DownloadFile(text.encode(), name, "text/markdown")
        export = ScriptExport(scripts, script_id, owner=owner, lufs=lufs)
        if format == AUDIOBOOK:
            return DownloadStream(export.audiobook(), name, "audio/mp4")
        if format.endswith(ZIP):
            kind = cast(FileFormat, format.removesuffix(ZIP))
            return DownloadStream(export.cards(kind), name, "application/zip")
        sound = cast(FileFormat, format)
        return DownloadStream(export.sound(sound), name, MIMES[sound])

    return produce


def _subtitles(scripts: ScriptLibrary, owner: str, script_id: str, format: str) -> bytes:
    shown = cues(scripts.cards(script_id, owner=owner))
    if not shown:
        raise InvalidInput("cards.unspoken")
    return SUBTITLES[format][0](shown).encode()
