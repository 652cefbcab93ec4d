"""Pause tags in a text: `[pause:0.5]` is exactly 0.5 seconds of silence, and so is `[pause:500ms]`."""

import regex

from engine.errors import InvalidText

MAX_PAUSE = 60.0  # seconds
MAX_PAUSES = 600.0  # seconds of all pauses of a text

# Any number, so that a pause that is too long is refused and not taken for a style tag.
PAUSE = regex.compile(r"(?i)\[ *pause *: *((?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:e[+-]?[0-9]+)?(?: *m?s)?) *\]")
# One or more empty lines.
PARAGRAPH_END = regex.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+[^\S\n]*")


def seconds_of(length: str) -> float:
    """Return the seconds of a length as `PAUSE` finds it, in seconds or milliseconds."""
    number = length.lower().replace(",", ".").removesuffix("s")
    return float(number.removesuffix("m")) / (1000 if number.endswith("m") else 1)


def split_pauses(text: str) -> list[tuple[str, float]]:
    """Split text at its pauses into pairs of text and seconds of silence after it.

    Raises InvalidText for a pause longer than `MAX_PAUSE`, and for pauses of more than `MAX_PAUSES` in total.
    """
    parts = cut_at_pauses(text)
    if any(pause > MAX_PAUSE for _, pause in parts):
        raise InvalidText("text.long_pause", most=int(MAX_PAUSE))
    check_total_pause(sum(pause for _, pause in parts))
    return parts


def cut_at_pauses(text: str) -> list[tuple[str, float]]:
    """Split text as `split_pauses` does, with pauses of any length."""
    parts = PAUSE.split(text)
    seconds = [seconds_of(length) for length in parts[1::2]]
    return list(zip(parts[::2], [*seconds, 0.0], strict=True))


def check_total_pause(seconds: float) -> None:
    """Raise InvalidText if the pauses of a text are longer than `MAX_PAUSES` in total."""
    if seconds > MAX_PAUSES:
        raise InvalidText("text.long_pauses", most=int(MAX_PAUSES // 60))


def pause_seconds(text: str) -> float:
    """Return the total length of the pauses in a text, in seconds."""
    return sum(min(seconds_of(length), MAX_PAUSE) for length in PAUSE.findall(text))


def without_pauses(text: str) -> str:
    """Return text with its pause tags replaced by spaces."""
    return PAUSE.sub(" ", text)


def with_paragraph_pauses(text: str, seconds: float) -> str:
    """Insert a pause after each paragraph but the last, unless `seconds` is 0."""
    if seconds <= 0:
        return text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:start] + PARAGRAPH_END.sub(f"\n[pause:{seconds:g}]\n", text[start:end]) + text[end:]
