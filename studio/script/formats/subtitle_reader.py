"""Subtitles (.srt, .vtt) → paragraphs: one for each cue, with the pause before the next.

Sources: SubRip files as they occur in practice; W3C, WebVTT: The Web Video Text Tracks Format (2019).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import regex

from engine.errors import InvalidText
from engine.text.tags import is_speakable
from storage.scripts.limits import MAX_PAUSE, MAX_SPEAKER
from studio.script.formats.dialogue import SpeakerLines, find_speakers, split_by_speaker
from studio.script.formats.document import Document, Paragraph
from studio.script.formats.raw_html import unescape

_TIME = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMING = regex.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_NUMBER = regex.compile(r"\s*\d{1,9}\s*")
_HEADER = regex.compile(r"\ufeff?WEBVTT(?:\s|$)")
_VOICE = regex.compile(r"<v(?:\.[^\s<>]*+)?\s++([^<>]+)>")
# SubRip's <i> and {\an8}, WebVTT's <c.loud> and <00:01.000>; a lone < is text.
_MARKUP = regex.compile(
    r"</?(?:b|i|u|s|c|v|lang|ruby|rt|font)(?:[.\s][^<>]*)?>|<[\d:.]+>|\{\\[^{}]*\}", regex.IGNORECASE
)
# Before the words of another speaker: ">> ANNA: …"; a dash that no name follows may be punctuation.
_TURN = regex.compile(r"\A\s*+(?:>>++|[-–—](?=\s*+(?:[^\s:：\[\]][^:：\[\]]{0,80}+[:：]|\[)))\s*+")

_ROLLING = 3  # cues that repeat the one before or a part of it
_MAX_LINES = 4  # that a cue repeats


@dataclass(frozen=True)
class _TimedText:
    start: float  # seconds
    end: float
    text: str  # lines, with markup


def is_subtitles(text: str) -> bool:
    """Return whether text of unknown format looks like subtitles."""
    if _HEADER.match(text):
        return True
    first = [line for line in text.lstrip("\ufeff").split("\n", 20)[:20] if line.strip()][:2]
    return any(_TIMING.fullmatch(line) for line in first)


def read_subtitles(text: str) -> Document:
    """Read each cue as a paragraph, with its pause from the times. A cue without words lengthens the pause before it.

    Speakers are those of WebVTT's `<v Name>` or of lines `Name: …`. Raises InvalidText when no cue has words.
    """
    webvtt = _HEADER.match(text) is not None
    cues, omitted = _cues(text.split("\n"), webvtt=webvtt)
    cues = _without_repeated_lines(_without_growing_ones(cues))
    spoken = [cue for cue in cues if is_speakable(_MARKUP.sub("", cue.text))]
    if not spoken:
        raise InvalidText("cards.no_subtitles")
    speakers = find_speakers(line for cue in spoken for line in (*_lines(cue.text, webvtt), ""))
    paragraphs: list[Paragraph] = []
    for cue, following in zip(spoken, [*spoken[1:], None], strict=True):
        pause = min(max(following.start - cue.end, 0.0), MAX_PAUSE) if following else 0.0
        paragraphs += _paragraphs(_by_speaker(cue.text, speakers, webvtt), round(pause, 3))
    return Document(tuple(paragraphs), tuple(omitted))


def _paragraphs(parts: Sequence[SpeakerLines], pause: float) -> list[Paragraph]:
    pauses = [0.0] * (len(parts) - 1) + [pause]
    return [
        Paragraph(" ".join(part.lines), part_pause, part.speaker, whole=True, has_own_pause=True)
        for part, part_pause in zip(parts, pauses, strict=True)
    ]


def _by_speaker(text: str, speakers: frozenset[str], webvtt: bool) -> list[SpeakerLines]:
    before, *voiced = _VOICE.split(text) if webvtt else [text]
    parts = split_by_speaker(_lines(before, webvtt), speakers)
    for name, said in zip(voiced[::2], voiced[1::2], strict=True):
        parts.append(SpeakerLines(" ".join(unescape(name).split())[:MAX_SPEAKER], _lines(said, webvtt)))
    return [part for part in parts if part.lines]


def _lines(text: str, webvtt: bool) -> list[str]:
    text = _MARKUP.sub("", text)
    lines = (unescape(text) if webvtt else text).split("\n")
    return list(filter(None, (" ".join(_TURN.sub("", line).split()) for line in lines)))


def _without_growing_ones(cues: list[_TimedText]) -> list[_TimedText]:
    """Leave out cues that the next one repeats and continues, if most of them are so: live captions."""
    plain = [" ".join(_MARKUP.sub("", cue.text).split()) for cue in cues]
    grows = [bool(before) and after != before and after.startswith(before) for before, after in pairwise(plain)]
    if sum(grows) < _ROLLING or 2 * sum(grows) < len(cues):
        return cues
    kept: list[_TimedText] = []
    start: float | None = None  # of the first of the cues that grow
    for cue, goes_on in zip(cues, [*grows, False], strict=True):
        start = cue.start if start is None else start
        if not goes_on:
            kept.append(replace(cue, start=start))
            start = None
    return kept


def _without_repeated_lines(cues: list[_TimedText]) -> list[_TimedText]:
    """Leave out lines that cues repeat from the ones before, if most of them do: captions that roll, as YouTube's."""
    shown = [[line for line in cue.text.split("\n") if _MARKUP.sub("", line).strip()] for cue in cues]
    plain = [[" ".join(_MARKUP.sub("", line).split()) for line in lines] for lines in shown]
    repeated = [0, *(_overlap(*two) for two in pairwise(plain))]
    partly = sum(0 < count < max(map(len, two)) for count, two in zip(repeated[1:], pairwise(plain), strict=True))
    if partly < _ROLLING or 2 * partly < len(cues):
        return cues
    return [
        replace(cue, text="\n".join(lines[count:])) for cue, lines, count in zip(cues, shown, repeated, strict=True)
    ]


def _overlap(before: list[str], lines: list[str]) -> int:
    """Return how many of the first lines are the last ones of the cue before."""
    return next((n for n in range(min(len(before), len(lines), _MAX_LINES), 0, -1) if before[-n:] == lines[:n]), 0)


def _cues(lines: list[str], *, webvtt: bool) -> tuple[list[_TimedText], list[str]]:
    """Return all cues in the file's order, and the text outside of cues."""
    timings = [number for number, line in enumerate(lines) if _TIMING.fullmatch(line)]
    cues: list[_TimedText] = []
    stray = [lines[: timings[0] if timings else len(lines)]]
    for count, (number, end) in enumerate(pairwise([*timings, len(lines)]), 2):
        body = lines[number + 1 : end]
        is_last = end == len(lines)
        payload, rest = _split_webvtt(body) if webvtt else (body if is_last else _without_number(body, count), [])
        cues.append(_TimedText(*_times(lines[number]), "\n".join(payload)))
        stray.append(rest)
    omitted = [text for rest in stray[:-1] for text in _outside(rest, before_cue=True)]
    return cues, omitted + _outside(stray[-1], before_cue=False)


def _split_webvtt(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the text of a cue, up to an empty line, and the lines between it and the next.

    The first line may consist of spaces, as in YouTube's captions.
    """
    end = next((number for number, line in enumerate(lines) if not (line if number == 0 else line.strip())), len(lines))
    return lines[:end], lines[end:]


def _without_number(lines: list[str], number: int) -> list[str]:
    """Return the lines up to the next cue without its number. In real SubRip files an empty line does not end a cue."""
    if (
        lines
        and _NUMBER.fullmatch(lines[-1])
        and (len(lines) == 1 or not lines[-2].strip() or int(lines[-1]) == number)
    ):
        return lines[:-1]
    return lines


def _outside(lines: list[str], *, before_cue: bool) -> list[str]:
    """Return notes, styles and misplaced text, without the file's header and the identifiers of cues."""
    blocks = [block.strip("\n") for block in regex.split(r"\n\s*\n", "\n".join(lines).strip("\n"))]
    if before_cue and lines and lines[-1].strip() and "\n" not in blocks[-1]:
        blocks.pop()
    return [block for block in blocks if block.strip() and not _HEADER.match(block)]


def _times(line: str) -> tuple[float, float]:
    found = _TIMING.fullmatch(line)
    assert found is not None, "callers pass only lines that match"
    start, end = found.groups()[:4], found.groups()[4:]
    return _seconds(*start), _seconds(*end)


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    return 3600.0 * int(hours or 0) + 60 * int(minutes) + int(seconds) + int(fraction) / 10.0 ** len(fraction)
