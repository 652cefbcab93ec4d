"""Long texts: cards to be spoken one after the other, and subtitles of what was spoken. No torch, no database.

`parse_file` and `parse` make cards of a text, `progress` tells how far their speaking is, `cues` with `to_srt` and
`to_vtt` write the subtitles. The sound of a whole script is written by `engine.audio.concatenate`.
"""

from studio.script.cards import Card, Script, parse, parse_file
from studio.script.decode import decode_text
from studio.script.progress import Progress, progress
from studio.script.subtitles import Cue, cues, to_srt, to_vtt

__all__ = [
    "Card",
    "Cue",
    "Progress",
    "Script",
    "cues",
    "decode_text",
    "parse",
    "parse_file",
    "progress",
    "to_srt",
    "to_vtt",
]
