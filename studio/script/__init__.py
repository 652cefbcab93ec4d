"""Scripts: long texts as cards that are spoken one after the other, and their subtitles.

`parse_file` and `parse` split a text into cards, `progress` estimates the time left, `cues` with `to_srt` and `to_vtt`
creates subtitles: these need neither torch nor a database. `runner` speaks the cards of a stored script,
and `export` writes its files.
"""

from studio.script.cards import Card, Script, parse, parse_file
from studio.script.formats.card_marks import to_markdown
from studio.script.formats.decode import decode_text
from studio.script.formats.subtitle_writer import Cue, cues, to_srt, to_vtt
from studio.script.progress import ScriptProgress, progress

__all__ = [
    "Card",
    "Cue",
    "Script",
    "ScriptProgress",
    "cues",
    "decode_text",
    "parse",
    "parse_file",
    "progress",
    "to_markdown",
    "to_srt",
    "to_vtt",
]
