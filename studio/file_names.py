"""Names of the files that users save."""

from __future__ import annotations

FIRST_WORDS = 40  # characters of the text in a take's file name
LONGEST = 200  # bytes of a name without number and suffix; file systems allow 255 for all of it


def safe_file_name(name: str) -> str:
    """Replace path separators and reserved or unprintable characters. Returns "file" if nothing is left."""
    kept = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in name)
    return kept.strip(" .") or "file"


def short_stem(name: str) -> str:
    """Return as much of a name as file systems accept."""
    if len(name.encode()) <= LONGEST:
        return name
    return name.encode()[:LONGEST].decode(errors="ignore").rstrip()


def take_file_name(voice: str, text: str) -> str:
    """Return the file name of a take without its suffix: "Anna – The rain has stopped"."""
    words = " ".join(text.split())
    if len(words) > FIRST_WORDS:
        cut = words[: FIRST_WORDS + 1].rpartition(" ")[0]
        words = cut or words[:FIRST_WORDS]
    start = words.strip(" .,;:!?…。、！？")
    return f"{voice} – {start}" if start else voice
