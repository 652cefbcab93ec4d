"""Plays and screenplays with speakers' names in capitals: `HAMLET. To be …`, or a name on a line before the speech."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import regex

from studio.script.formats.dialogue import direction_tag

_TITLE = r"(?:MRS?|MS|DR|ST|M|MME|MLLE|PROF|REV|CAPT|SGT|LT|COL|GEN|SR|SRA|FR|HR)\.\ "
_WORD = r"\p{Lu}[\p{Lu}\p{M}'’\-]*+"
_DASH = r"\.\s?[—–]"  # after names in French and Spanish plays: "ORGON, à part. — …", "Juan.— …"
# Only before a space: in English books "Note.—", "Mode.—" and "Syn.—" are headings.
_ANY_CASE = r"\p{Lu}[\p{L}\p{M}'’\-]*+"
_CUE = regex.compile(
    rf"(?P<name>(?:{_TITLE})?+{_WORD}(?:\ {_WORD}){{0,3}}+(?![\p{{L}}\p{{M}}])"
    rf"|{_ANY_CASE}(?:\ {_ANY_CASE}){{0,3}}+(?=(?:,[^.\n]{{1,60}})?{_DASH}\s))"
    r"(?P<direction>\ ?(?:\([^()\n]{1,80}\)|\[[^\[\]\n]{1,80}\])"
    rf"|,\ (?P<aside>\p{{Ll}}[^.()\n]{{0,60}})(?={_DASH}))?+"
    rf"(?:(?:{_DASH}\s*|\.\s+)(?P<text>\S.*)|\.|(?P<alone>))",
    regex.DOTALL,
)
# Headings of chapters, acts and scenes, and of manuals, recipes and papers.
_HEADING = regex.compile(
    r"(?:.*\ )?[IVXLCDM]+|(?:ACT|SCENE|INT|EXT|CHAPTER|PART|BOOK|THE END)(?:\ .*)?"
    r"|(?:.*\ )?(?:ACTE|SCÈNE|AKT|AUFTRITT|AUFZUG|SZENE|ACTO|ESCENA|CUADRO|ATTO|ДЕЙСТВИЕ|ЯВЛЕНИЕ|СЦЕНА)(?:\ .*)?"
    r"|CAUTION|DANGER|IMPORTANT|NOTES?|TIPS?|WARNING|DIRECTIONS|INGREDIENTS|INSTRUCTIONS|METHODS?|PREPARATION"
    r"|CONCLUSIONS?|DISCUSSION|INTRODUCTION|RESULTS|SUMMARY"
)


class _Cue(NamedTuple):
    """The line that begins a speech. text: "" if the speech begins on the next line."""

    name: str
    direction: str
    text: str


def with_colons(lines: Sequence[str]) -> list[str]:
    """Write the names of a play's speakers before a colon; lines of any other text are returned unchanged.

    A text is a play if at least two names begin several speeches each, and a third of the lines belong to
    speeches.
    """
    around = ["", *lines, ""]
    cues = [_cue(*around[at : at + 3]) for at in range(len(lines))]
    times = Counter(cue.name for cue in cues if cue)
    speeches, opened = 0, False
    for line, cue in zip(lines, cues, strict=True):
        opened = bool(line) and (opened or cue is not None)
        speeches += opened
    if sum(count > 1 for count in times.values()) < 2 or 3 * speeches < sum(map(bool, lines)):
        return list(lines)
    return list(_rewritten(lines, cues))


def _rewritten(lines: Iterable[str], cues: Iterable[_Cue | None]) -> Iterator[str]:
    """Yield the lines with colons. A direction after a name that is alone begins the next line.

    Lines of a speech that begin with a direction in brackets, which `[Name] …` looks like, repeat the name.
    """
    waiting = speaker = ""
    for line, cue in zip(lines, cues, strict=True):
        speaker = cue.name if cue else speaker if line else ""
        if cue is None:
            line = f"{direction_tag(waiting)} {line}".strip()
            yield f"{speaker}: {line}" if speaker and line.startswith("[") else line
            waiting = ""
        else:
            if direction_tag(waiting):
                yield waiting
            yield " ".join(filter(None, (f"{cue.name}:", cue.text and direction_tag(cue.direction), cue.text)))
            waiting = "" if cue.text else cue.direction


def _cue(before: str, line: str, following: str) -> _Cue | None:
    """Return the beginning of a speech, None if the line is none."""
    found = _CUE.fullmatch(line)
    if found is None or len(found["name"]) < 2 or _HEADING.fullmatch(found["name"]):
        return None
    is_alone = found["alone"] is not None
    if not found["text"] and (not following or (is_alone and before)):
        return None
    direction = f"({found['aside']})" if found["aside"] else (found["direction"] or "").strip()
    return _Cue(found["name"], direction, found["text"] or "")
