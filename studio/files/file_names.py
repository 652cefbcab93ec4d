"""Names of the files that users save."""

from __future__ import annotations

from engine.text.sentences import grapheme_ends

FIRST_WORDS = 40  # characters of the text in a take's file name
LONGEST = 200  # bytes of a name without number and suffix; file systems allow 255 for all of it
_JOINERS = "\u200c\u200d"  # of Persian, Indic scripts and emoji
_EDGES = " .,;:!?…。、，；：！？؟،؛।॥"


def safe_file_name(name: str) -> str:
    """Replace path separators and reserved or unprintable characters. Returns "file" if nothing is left."""
    kept = "".join(
        "_" if letter in '/\\:*?"<>|' or not (letter.isprintable() or letter in _JOINERS) else letter for letter in name
    )
    return kept.strip(f" .{_JOINERS}") or "file"


def short_stem(name: str) -> str:
    """Return as much of a name as file systems accept."""
    if len(name.encode()) <= LONGEST:
        return name
    return _whole(name, len(name.encode()[:LONGEST].decode(errors="ignore"))).rstrip()


def take_file_name(voice: str, text: str) -> str:
    """Return the file name of a take without its suffix: "Anna – The rain has stopped"."""
    words = " ".join(text.split())
    if len(words) > FIRST_WORDS:
        cut = words[: FIRST_WORDS + 1].rpartition(" ")[0]
        words = cut or _whole(words, FIRST_WORDS)
    start = words.strip(_EDGES)
    return f"{voice} – {start}" if start else voice


def _whole(text: str, length: int) -> str:
    """Return at most `length` characters, without a part of a letter with marks; of an endless one, all of these."""
    ends = grapheme_ends(text, (0, length + 1))
    return text[: max((end for end in ends if end <= length), default=length)]
