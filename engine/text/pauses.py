"""Pauses that a writer puts into a text: `[pause:0.5]`, in seconds. They are silence of exactly this length."""

import regex

from engine.errors import InvalidText

MAX_PAUSE = 60.0  # seconds

PAUSE = regex.compile(r"(?i)\[ *pause *: *([0-9]{1,4}(?:[.,][0-9]{1,4})?) *s? *\]")
# One empty line or more.
PARAGRAPH_END = regex.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+[^\S\n]*")


def split_pauses(text: str) -> list[tuple[str, float]]:
    """Split text at its pauses: each piece with the seconds of silence after it. Raises InvalidText for a long one."""
    parts = PAUSE.split(text)
    seconds = [float(number.replace(",", ".")) for number in parts[1::2]]
    if any(pause > MAX_PAUSE for pause in seconds):
        raise InvalidText("text.long_pause", most=int(MAX_PAUSE))
    return list(zip(parts[::2], [*seconds, 0.0], strict=True))


def pause_seconds(text: str) -> float:
    """The pauses of a text together, in seconds."""
    return sum(min(float(number.replace(",", ".")), MAX_PAUSE) for number in PAUSE.findall(text))


def without_pauses(text: str) -> str:
    """Text as it is said."""
    return PAUSE.sub(" ", text)


def with_paragraph_pauses(text: str, seconds: float) -> str:
    """Put a pause after each paragraph but the last; none of 0 seconds."""
    if seconds <= 0:
        return text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:start] + PARAGRAPH_END.sub(f"\n[pause:{seconds:g}]\n", text[start:end]) + text[end:]
