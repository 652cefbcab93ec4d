"""Subtitles of a spoken script as .srt and .vtt, timed by the takes of its cards."""

import html
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from engine.text.cuts import split_to_fit
from engine.text.pauses import cut_at_pauses
from engine.text.sentences import is_clause_end, word_ends
from engine.text.tags import STYLE_TAG, has_words
from engine.text.timing import least_time, speaking_time
from studio.script.progress import SpokenCard

LINE = 42  # columns; with two lines a cue, the usual limit of broadcasters


class SubtitledCard(SpokenCard, Protocol):
    """A spoken card with its speaker; None for the narrator."""

    @property
    def speaker(self) -> str | None: ...


@dataclass(frozen=True)
class Cue:
    """One subtitle. start, end: seconds. lines: of a script's, one or two of at most 42 columns (wide characters take
    two).
    """

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


def cues(cards: Iterable[SubtitledCard]) -> list[Cue]:
    """Create the subtitles of all cards that have takes, timed as in the joined audio: each take, then its pause.

    Cards are cut at the pauses in their texts, during which nothing is shown, and long ones where a reader would pause;
    each part gets a share of the speech by its speaking time. Style tags are not shown.
    """
    made: list[Cue] = []
    start = 0.0
    for card in cards:
        if card.seconds is not None:
            made += _cues_of(card, start, card.seconds)
            start += card.seconds + card.pause
    return made


def to_srt(cues: Iterable[Cue]) -> str:
    """Format as a SubRip file, to be encoded in UTF-8."""
    return "".join(
        f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\n{_text(cue)}\n\n"
        for number, cue in enumerate(cues, 1)
    )


def to_vtt(cues: Iterable[Cue]) -> str:
    """Format as a WebVTT file, to be encoded in UTF-8. Speakers are named in voice tags."""
    return "WEBVTT\n\n" + "".join(
        f"{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n{_voice(cue)}{html.escape(_text(cue), quote=False)}\n\n"
        for cue in cues
    )


def _cues_of(card: SubtitledCard, start: float, seconds: float) -> Iterator[Cue]:
    """Yield the cues of a card that is played for so many seconds from `start`."""
    tags = not has_words(card.text)
    passages = [(_parts(text, tags), pause) for text, pause in _passages(card, seconds)]
    speech = seconds - sum(pause for _, pause in passages)
    total = sum(speaking_time(part) for parts, _ in passages for part in parts)
    for parts, pause in passages:
        for part in parts:
            end = start + speech * speaking_time(part) / total
            yield Cue(start, end, _lines(part), card.speaker)
            start = end
        start += pause


def _passages(card: SubtitledCard, seconds: float) -> list[tuple[str, float]]:
    """Return the text between the pauses of a card, and seconds of silence after it.

    A take that is too short for its pauses, such as one that was stopped, is shown as if it had none.
    """
    scale = seconds / card.duration if card.duration else 1.0
    passages = [(text, scale * pause) for text, pause in cut_at_pauses(card.text)]
    if sum(pause for _, pause in passages) + scale * least_time(card.text) < seconds:
        return passages
    return [(text, 0.0) for text, _ in passages]


def _parts(text: str, tags: bool) -> list[str]:
    """Return the parts of a text to show, with or without style tags; `-->` would look like the times of a cue."""
    words = text if tags else STYLE_TAG.sub(" ", text)
    return list(filter(None, split_to_fit(" ".join(words.replace("-->", "→").split()), _fits_cue)))


def _fits_cue(text: str) -> bool:
    if _is_wider(text, 2 * LINE + 1):  # the space between the lines is not shown
        return False
    return _width(text) <= LINE or any(_line_breaks(text))


def _lines(text: str) -> tuple[str, ...]:
    """Break into two lines of similar width, at the end of a clause if possible; one line where no break fits."""
    breaks = list(_line_breaks(text)) if _width(text) > LINE else []
    if not breaks:
        return (text,)
    clauses = [cut for cut in breaks if is_clause_end(text, cut)]
    cut = min(clauses or breaks, key=lambda cut: abs(_width(text[:cut]) - _width(text[cut:])))
    return text[:cut].strip(), text[cut:].strip()


def _line_breaks(text: str) -> Iterator[int]:
    columns = [0, *accumulate(map(_columns, text))]
    for cut in word_ends(text, (0, len(text))):
        first, second = len(text[:cut].rstrip()), len(text) - len(text[cut:].lstrip())
        if 0 < cut < len(text) and columns[first] <= LINE and columns[-1] - columns[second] <= LINE:
            yield cut


@lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    """Return 2 for East Asian wide characters, 0 for combining marks and invisible characters, else 1."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _width(text: str) -> int:
    return sum(map(_columns, text))


def _is_wider(text: str, most: int) -> bool:
    return any(columns > most for columns in accumulate(map(_columns, text)))


def _text(cue: Cue) -> str:
    return "\n".join(cue.lines)


def _voice(cue: Cue) -> str:
    return f"<v {html.escape(' '.join(cue.speaker.split()), quote=False)}>" if cue.speaker else ""


def _time(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{point}{rest % 1000:03d}"
