"""A block: what a reader sets apart from the rest, such as a paragraph or a heading, and who says it."""

from dataclasses import dataclass, replace

from engine.errors import InvalidText

SENTENCE_PAUSE = 0.2  # seconds; the takes themselves begin and end with some silence
PARAGRAPH_PAUSE = 0.6
SECTION_PAUSE = 1.2
MAX_PAUSE = 60.0
MAX_CARDS = 10_000  # of a script

_BREAK_MARKS = frozenset("*-_=~#•·+")  # three of them alone on a line, as between two scenes


@dataclass(frozen=True)
class Block:
    """text: one paragraph, without line ends. pause: seconds of silence after it. speaker: None for the narrator.

    whole: it stays one card if it can, however many sentences it has.
    """

    text: str
    pause: float = PARAGRAPH_PAUSE
    speaker: str | None = None
    whole: bool = False


@dataclass(frozen=True)
class Reading:
    """blocks: what is read aloud, in order. omitted: what is not (code, addresses), in the words of the source."""

    blocks: tuple[Block, ...]
    omitted: tuple[str, ...] = ()


def is_break(line: str) -> bool:
    """Whether a line only parts what is above from what is below."""
    marks = "".join(line.split())
    return len(marks) >= 3 and _BREAK_MARKS.issuperset(marks)


def too_many_cards() -> InvalidText:
    """The error for a text that makes more cards than a script can have."""
    return InvalidText(
        f"The text makes more than {MAX_CARDS:,} cards, which is all that a script can have. "
        "Divide it into several, such as chapters."
    )


def longer_pause(blocks: list[Block], pause: float) -> None:
    """Have at least this pause after what there is so far."""
    if blocks:
        blocks[-1] = replace(blocks[-1], pause=max(pause, blocks[-1].pause))
