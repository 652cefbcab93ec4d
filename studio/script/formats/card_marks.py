"""Marks of a paragraph for its cards: `[chapter:…]` and `[speed:1.25]` at its beginning, `[pause:0.5]` at its end.

`to_markdown` writes a script with them, which `studio.script.parse` reads back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

import regex

from engine.errors import InvalidText
from engine.text.pauses import PAUSE
from storage.scripts.limits import FASTEST_CARD, MAX_CHAPTER, MAX_PAUSE, SLOWEST_CARD
from studio.script.formats.document import Paragraph

_CHAPTER = regex.compile(rf"(?i)\s*\[ *chapter *: *([^\[\]\n]{{1,{MAX_CHAPTER}}}?) *\]\s*")
_SPEED = regex.compile(r"(?i)\s*\[ *speed *: *([0-9]{1,3}(?:[.,][0-9]{1,4})?) *[x×]? *\]\s*")
_MARKS_ONLY = regex.compile(  # inner flags, which are the same, may only be at the beginning
    rf"(?P<head>(?:{_CHAPTER.pattern}|{_SPEED.pattern})*+)(?P<pauses>(?:\s*{PAUSE.pattern})*+)\s*".replace("(?i)", ""),
    regex.IGNORECASE,
)
_LAST_PAUSE = regex.compile(rf"\s*{PAUSE.pattern.removeprefix('(?i)')}\s*$", regex.IGNORECASE)
# Markdown syntax that could change how a text is read.
_MARKUP = regex.compile(r"[\\`*_~<&|]|!(?=\[)|(?<=\])\(|^(?:[#>+\-=])|^[0-9]{1,9}\K[.)]")
_NAME_SIGN = regex.compile(r"[;\\]")  # escaped in the list of names


class WrittenCard(Protocol):
    """A card to write; as `studio.script.Card`."""

    @property
    def text(self) -> str: ...
    @property
    def speaker(self) -> str | None: ...
    @property
    def pause(self) -> float: ...
    @property
    def ends_paragraph(self) -> bool: ...
    @property
    def speed(self) -> float: ...
    @property
    def chapter(self) -> str | None: ...


def join_lone_marks(paragraphs: Iterable[Paragraph]) -> Iterator[Paragraph]:
    """Join paragraphs that consist of marks to their neighbours: chapters and speeds to the next one, pauses to the one
    before, or at the beginning of the text to the first one.
    """
    last: Paragraph | None = None
    head, lead = "", ""
    for paragraph in paragraphs:
        found = _MARKS_ONLY.fullmatch(paragraph.text)
        if found is None:
            if last is not None:
                yield last
            last = replace(paragraph, text=f"{head}{lead} {paragraph.text}".strip())
            head = lead = ""
            continue
        head += found["head"]
        if last is None:
            lead += found["pauses"]
        else:
            last = replace(last, text=f"{last.text} {found['pauses']}".strip())
    if last is not None:
        yield last


def read_marks(paragraph: Paragraph) -> Paragraph:
    """Apply and remove the marks of a paragraph, unless it has nothing else.

    Raises InvalidText for a speed or a pause outside of its limits.
    """
    text, chapter, speed, pause = paragraph.text, paragraph.chapter, paragraph.speed, paragraph.pause
    if found := _CHAPTER.match(text):
        text, chapter = text[found.end() :], found[1]
    if found := _SPEED.match(text):
        text, speed = text[found.end() :], float(found[1].replace(",", "."))
        if not SLOWEST_CARD <= speed <= FASTEST_CARD:
            raise InvalidText("cards.speed", least=SLOWEST_CARD, most=FASTEST_CARD)
    if found := _LAST_PAUSE.search(text):
        seconds = float(found[1].replace(",", "."))
        if seconds > MAX_PAUSE:
            raise InvalidText("text.long_pause", most=int(MAX_PAUSE))
        text, pause = text[: found.start()], seconds
    if not text.strip():
        return paragraph
    if paragraph.chapter == paragraph.text[:MAX_CHAPTER].strip():
        chapter = text[:MAX_CHAPTER].strip()
    return replace(paragraph, text=text, chapter=chapter, speed=speed, pause=pause)


def to_markdown(cards: Iterable[WrittenCard]) -> str:
    """Write cards as Markdown, one paragraph each: chapters as headings, speakers, speeds and pauses as marks."""
    cards = list(cards)
    speakers = dict.fromkeys(" ".join(card.speaker.split()) for card in cards if card.speaker)
    names = "; ".join(_NAME_SIGN.sub(r"\\\g<0>", name) for name in speakers)
    head = f"---\nspeakers: {names}\n---\n\n" if speakers else ""
    return head + "\n\n".join(map(_written, cards)) + "\n"


def read_names(text: str) -> frozenset[str]:
    """Read the names that `to_markdown` lists."""
    names = regex.findall(r"(?:\\[;\\]|[^;])++", text)
    return frozenset(filter(None, (regex.sub(r"\\([;\\])", r"\1", name).strip() for name in names)))


def _written(card: WrittenCard) -> str:
    heading = card.chapter == card.text and card.speaker is None and not card.text.startswith("[")
    name = _escaped(card.speaker or "").replace("[", r"\[")
    parts = ["#" if heading else "", f"{name}:" if name else ""]
    parts.append(f"[chapter:{card.chapter}]" if card.chapter and not heading else "")
    parts.append(f"[speed:{card.speed:g}]" if card.speed != 1 else "")
    parts.append(_escaped(card.text))
    parts.append("" if card.ends_paragraph else f"[pause:{card.pause:g}]")
    return " ".join(filter(None, parts))


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))
