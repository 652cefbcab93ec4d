"""Plain text → blocks: paragraphs as they were meant, also of text that was wrapped at a column."""

from engine.text.clean import join_wrapped
from studio.script.blocks import SECTION_PAUSE, Block, Reading, is_break, longer_pause
from studio.script.dialogue import Turn, find_speakers, split_turns


def read_plain(text: str) -> Reading:
    """Paragraphs, wrapped lines joined; lines `Name: …` and `[Name] …` are the speaker's; `***` is a longer pause."""
    blocks: list[Block] = []
    lines = [" ".join(line.split()) for line in text.split("\n")]
    speakers = find_speakers(lines)
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line and not is_break(line):
            paragraph.append(line)
            continue
        for turn in split_turns(paragraph, speakers):
            blocks += _blocks(turn)
        paragraph = []
        if line:
            longer_pause(blocks, SECTION_PAUSE)
    return Reading(tuple(blocks))


def _blocks(turn: Turn) -> list[Block]:
    """A block for every line that ends on purpose; what an email program wrapped is put together again."""
    return [Block(text, speaker=turn.speaker) for text in join_wrapped(turn.lines)]
