"""The result of reading a text file: paragraphs with their speakers and pauses."""

from dataclasses import dataclass

from engine.errors import InvalidText
from storage.scripts.limits import MAX_CARDS

SENTENCE_PAUSE = 0.2  # seconds; takes begin and end with some silence of their own
PARAGRAPH_PAUSE = 0.6
HEADING_PAUSE = 0.8
SECTION_PAUSE = 1.2

_ORNAMENTS = frozenset("*#＊∗⁂※◇◆○●☆★□■△▲▽▼❦❧☙✦✧✽❖§")  # alone on a line, as between two scenes
_BREAK_MARKS = _ORNAMENTS | frozenset("-_=~•·+—–―─")  # at least three of them


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, heading, list item, table row or subtitle.

    text: without line ends. pause: seconds of silence after it. speaker: None for the narrator. whole: whether to keep
    it in one card if possible, regardless of its number of sentences. speed: of its cards. chapter: title of the
    chapter that begins with it. has_own_pause: whether a mark or the times of subtitles set its pause.
    """

    text: str
    pause: float = PARAGRAPH_PAUSE
    speaker: str | None = None
    whole: bool = False
    speed: float = 1.0
    chapter: str | None = None
    has_own_pause: bool = False


@dataclass(frozen=True)
class Document:
    """A text file that was read. paragraphs: the text to read aloud, in order.

    omitted: source text that is not read aloud, such as code and addresses. paragraph_pause: seconds after paragraphs
    of the script. is_saved: whether it is a saved script, each of whose paragraphs is a card. title, author: of the
    front matter, or "".
    """

    paragraphs: tuple[Paragraph, ...]
    omitted: tuple[str, ...] = ()
    paragraph_pause: float = PARAGRAPH_PAUSE
    is_saved: bool = False
    title: str = ""
    author: str = ""


def is_break(line: str) -> bool:
    """Return whether a line is only a separator between the lines above and below it."""
    marks = "".join(line.split())
    return bool(marks) and (_ORNAMENTS if len(marks) < 3 else _BREAK_MARKS).issuperset(marks)


def too_many_cards() -> InvalidText:
    """Return the error for a text that makes more cards than a script can have."""
    return InvalidText("cards.too_many", most=MAX_CARDS)
