"""Subtitles in, .srt or .vtt → blocks: one for each cue, with the pause that there is before the next.

Sources: SubRip as its files are in practice; W3C, WebVTT: The Web Video Text Tracks Format (2019).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from engine.errors import InvalidText
from engine.text.marks import is_spoken
from studio.script.blocks import MAX_PAUSE, Block, Reading
from studio.script.dialogue import MAX_SPEAKER, Turn, find_speakers, split_turns
from studio.script.raw_html import unescape

_TIME = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMING = regex.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_NUMBER = regex.compile(r"\s*\d{1,9}\s*")
_HEADER = regex.compile(r"\ufeff?WEBVTT(?:\s|$)")
_VOICE = regex.compile(r"<v(?:\.[^\s<>]*+)?\s++([^<>]+)>")
# SubRip's <i> and {\an8}, WebVTT's <c.loud> and <00:01.000>; a lone < is text.
_MARKS = regex.compile(
    r"</?(?:b|i|u|s|c|v|lang|ruby|rt|font)(?:[.\s][^<>]*)?>|<[\d:.]+>|\{\\[^{}]*\}", regex.IGNORECASE
)


@dataclass(frozen=True)
class _Cue:
    start: float  # seconds
    end: float
    text: str  # its lines, with their marks


def is_captions(text: str) -> bool:
    """Whether text of unknown kind looks like subtitles."""
    if _HEADER.match(text):
        return True
    first = [line for line in text.lstrip("\ufeff").split("\n", 20)[:20] if line.strip()][:2]
    return any(_TIMING.fullmatch(line) for line in first)


def read_captions(text: str) -> Reading:
    """One block a cue, timed by pauses; cues without words only lengthen the pause before them.

    Speakers are those of WebVTT's `<v Name>`, or of lines `Name: …`. Raises InvalidText when there is no cue.
    """
    webvtt = _HEADER.match(text) is not None
    cues, omitted = _cues(text.split("\n"), webvtt=webvtt)
    spoken = [cue for cue in cues if is_spoken(_MARKS.sub("", cue.text))]
    if not spoken:
        raise InvalidText("There are no subtitles with words in this file: choose another, or paste its text.")
    speakers = find_speakers(line for cue in spoken for line in (*_lines(cue.text, webvtt), ""))
    blocks: list[Block] = []
    for cue, following in zip(spoken, [*spoken[1:], None], strict=True):
        pause = min(max(following.start - cue.end, 0.0), MAX_PAUSE) if following else 0.0
        blocks += _blocks(_turns(cue.text, speakers, webvtt), round(pause, 3))
    return Reading(tuple(blocks), tuple(omitted))


def _blocks(turns: Sequence[Turn], pause: float) -> list[Block]:
    pauses = [0.0] * (len(turns) - 1) + [pause]
    return [
        Block(" ".join(turn.lines), turn_pause, turn.speaker, whole=True)
        for turn, turn_pause in zip(turns, pauses, strict=True)
    ]


def _turns(text: str, speakers: frozenset[str], webvtt: bool) -> list[Turn]:
    before, *voiced = _VOICE.split(text) if webvtt else [text]
    turns = split_turns(_lines(before, webvtt), speakers)
    for name, said in zip(voiced[::2], voiced[1::2], strict=True):
        turns.append(Turn(" ".join(unescape(name).split())[:MAX_SPEAKER], _lines(said, webvtt)))
    return [turn for turn in turns if turn.lines]


def _lines(text: str, webvtt: bool) -> list[str]:
    text = _MARKS.sub("", text)
    lines = (unescape(text) if webvtt else text).split("\n")
    return [" ".join(line.split()) for line in lines if line.strip()]


def _cues(lines: list[str], *, webvtt: bool) -> tuple[list[_Cue], list[str]]:
    """All cues in the file's order, and what stands outside of them."""
    timings = [number for number, line in enumerate(lines) if _TIMING.fullmatch(line)]
    cues: list[_Cue] = []
    stray = [lines[: timings[0] if timings else len(lines)]]
    for count, (number, end) in enumerate(pairwise([*timings, len(lines)]), 2):
        body = lines[number + 1 : end]
        payload, rest = _split_webvtt(body) if webvtt else (_without_number(body, count), [])
        cues.append(_Cue(*_times(lines[number]), "\n".join(payload)))
        stray.append(rest)
    omitted = [text for rest in stray[:-1] for text in _outside(rest, names_a_cue=True)]
    return cues, omitted + _outside(stray[-1], names_a_cue=False)


def _split_webvtt(lines: list[str]) -> tuple[list[str], list[str]]:
    """What a cue says, up to an empty line, and what stands between it and the next."""
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    return lines[:end], lines[end:]


def _without_number(lines: list[str], number: int) -> list[str]:
    """All up to the next cue but its number: in SubRip files as they are, empty lines do not end a cue."""
    if (
        lines
        and _NUMBER.fullmatch(lines[-1])
        and (len(lines) == 1 or not lines[-2].strip() or int(lines[-1]) == number)
    ):
        return lines[:-1]
    return lines


def _outside(lines: list[str], *, names_a_cue: bool) -> list[str]:
    """Notes, styles, and whatever is not where it belongs; not the file's header, nor a cue's name."""
    blocks = [block.strip("\n") for block in regex.split(r"\n\s*\n", "\n".join(lines).strip("\n"))]
    if names_a_cue and lines and lines[-1].strip() and "\n" not in blocks[-1]:
        blocks.pop()
    return [block for block in blocks if block.strip() and not _HEADER.match(block)]


def _times(line: str) -> tuple[float, float]:
    found = _TIMING.fullmatch(line)
    assert found is not None, "only lines that match come here"
    start, end = found.groups()[:4], found.groups()[4:]
    return _seconds(*start), _seconds(*end)


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    return 3600.0 * int(hours or 0) + 60 * int(minutes) + int(seconds) + int(fraction) / 10.0 ** len(fraction)
