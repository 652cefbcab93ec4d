"""Marks of a paragraph for its cards: `[chapter:…]` and `[speed:1.25]` at its beginning, `[pause:0.5]` at its end.

`[chapter:]` is no chapter and `[pause:]` the pause of paragraphs; text that looks like a mark may follow or precede
them. `to_markdown` writes a script with marks, which `studio.script.parse` reads back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import regex

from engine.errors import InvalidText
from engine.text.pauses import PAUSE, seconds_of
from storage.scripts.card_content import CardContent
from storage.scripts.limits import FASTEST_CARD, MAX_CHAPTER, MAX_PAUSE, SLOWEST_CARD
from studio.script.formats.dialogue import SpeakerLines, split_by_speaker
from studio.script.formats.document import PARAGRAPH_PAUSE, Paragraph

_TITLE_SIGN = regex.compile(r"[\[\]\\]")  # escaped in the title of a chapter
_CHAPTER = regex.compile(
    rf"(?i)\s*\[ *chapter *: *((?:[^\[\]\\\n]|\\[\[\]\\]|\\(?![\[\]\\])){{0,{MAX_CHAPTER}}}?) *\]\s*"
)
_SPEED = regex.compile(r"(?i)\s*\[ *speed *: *([0-9]{1,3}(?:[.,][0-9]{1,4})?) *[x×]? *\]\s*")
_MARKS_ONLY = regex.compile(  # inner flags, which are the same, may only be at the beginning
    rf"(?P<head>(?:{_CHAPTER.pattern}|{_SPEED.pattern})*+)(?P<pauses>(?:\s*{PAUSE.pattern})*+)\s*".replace("(?i)", ""),
    regex.IGNORECASE,
)
_LAST_PAUSE = regex.compile(rf"\s*(?:{PAUSE.pattern.removeprefix('(?i)')}|\[ *pause *: *\])\s*$", regex.IGNORECASE)
# Markdown syntax that could change how a text is read.
_MARKUP = regex.compile(r"[\\`*_~<&|]|!(?=\[)|(?<=\])[(:]|^[#>+\-=]|(?<=\s)#|^[0-9]{1,9}\K[.)]")
_NAME_SIGN = regex.compile(r"[;\\]")  # escaped in the list of names


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
        text, chapter = text[found.end() :], regex.sub(r"\\([\[\]\\])", r"\1", found[1]) or None
    if found := _SPEED.match(text):
        text, speed = text[found.end() :], float(found[1].replace(",", "."))
        if not SLOWEST_CARD <= speed <= FASTEST_CARD:
            raise InvalidText("cards.speed", least=SLOWEST_CARD, most=FASTEST_CARD)
    has_own_pause = paragraph.has_own_pause
    if found := _LAST_PAUSE.search(text):
        text = text[: found.start()]
        if has_own_pause := found[1] is not None:
            pause = seconds_of(found[1])
        if pause > MAX_PAUSE:
            raise InvalidText("text.long_pause", most=int(MAX_PAUSE))
    if not text.strip():
        return paragraph
    if paragraph.chapter == paragraph.text[:MAX_CHAPTER].strip():
        chapter = text[:MAX_CHAPTER].strip()
    return replace(paragraph, text=text, chapter=chapter, speed=speed, pause=pause, has_own_pause=has_own_pause)


def to_markdown(
    cards: Iterable[CardContent], paragraph_pause: float = PARAGRAPH_PAUSE, *, title: str = "", author: str = ""
) -> str:
    """Write cards as Markdown, one paragraph each: chapters as headings, speakers, speeds and pauses as marks.

    paragraph_pause: seconds, of the script. title, author: for the front matter.
    """
    cards, facts = list(cards), {"title": title, "author": author}
    speakers = dict.fromkeys(" ".join(card.speaker.split()) for card in cards if card.speaker)
    names = "; ".join(_NAME_SIGN.sub(r"\\\g<0>", name) for name in speakers)
    about = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items() if value]  # as YAML
    front = [*about, f"paragraph-pause: {_number(paragraph_pause)}", f"speakers: {names}" if names else ""]
    head = "\n".join(["---", *filter(None, front), "---"])
    return "\n\n".join([head, *(_written(card, frozenset(speakers)) for card in cards)]) + "\n"


def read_names(text: str) -> frozenset[str]:
    """Read the names that `to_markdown` lists."""
    names = regex.findall(r"(?:\\[;\\]|[^;])++", text)
    return frozenset(filter(None, (regex.sub(r"\\([;\\])", r"\1", name).strip() for name in names)))


def _written(card: CardContent, speakers: frozenset[str]) -> str:
    text, name = " ".join(card.text.split()), " ".join((card.speaker or "").split())
    has_marks = _resembles_marks(text, name, speakers)
    heading = card.chapter == text and not name and not has_marks and not text.startswith("[")
    parts = ["#" if heading else ""]
    if name:
        parts.append(_escaped(name).replace("[", r"\[") + ":")
    if has_marks or (card.chapter and not heading):
        title = _TITLE_SIGN.sub(r"\\\g<0>", card.chapter or "")
        parts.append(f"[chapter:{_escaped(title)}]")
    if has_marks or card.speed != 1:
        parts.append(f"[speed:{_number(card.speed)}]")
    parts.append(_escaped(text))
    if not card.ends_paragraph:
        parts.append(f"[pause:{_number(card.pause)}]")
    elif _LAST_PAUSE.search(text):
        parts.append("[pause:]")
    return " ".join(filter(None, parts))


def _resembles_marks(text: str, name: str, speakers: frozenset[str]) -> bool:
    """Whether a text that marks may follow would be read as one of another speaker, or as marks at its beginning."""
    followed = f"{text} x"
    read = split_by_speaker([f"{name}: {followed}" if name else followed], frozenset(), speakers)
    return bool(read != [SpeakerLines(name or None, [followed])] or _CHAPTER.match(text) or _SPEED.match(text))


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
