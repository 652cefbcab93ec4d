"""Markdown → blocks: what a reader of the rendered page would read aloud. Code and addresses are left out, and told.

The marks are those of CommonMark and GitHub (strike-through, task lists, tables, footnotes), as far as they change
what is said; a script has no use for the rest.
"""

import regex

from studio.script.blocks import Block, Reading
from studio.script.dialogue import find_speakers, split_turns
from studio.script.markdown_page import paragraphs_of

_FRONT_MATTER = regex.compile(r"\s*---\n(?=\S+:).*?\n(?:---|\.\.\.)(?:\n|$)", regex.DOTALL)

# What shows that a text without a name is Markdown: marks that nobody types by chance.
_MARKDOWN = regex.compile(r"(?m)^ {0,3}#{1,6} \S|^ {0,3}(?:```|~~~)|\[[^\[\]\n]+\]\([^\s()]+[()]|\*\*\S[^*\n]*\*\*")


def is_markdown(text: str) -> bool:
    """Whether text of unknown kind looks like Markdown."""
    return _MARKDOWN.search(text) is not None


def read_markdown(text: str) -> Reading:
    """Paragraphs, headings, list items and table rows as blocks, without their marks; headings have longer pauses.

    Raises InvalidText for what the parser fails at.
    """
    omitted: list[str] = []
    if front := _FRONT_MATTER.match(text):
        omitted.append(front[0].strip())
        text = text[front.end() :]
    paragraphs = paragraphs_of(text, omitted)
    speakers = find_speakers(line for paragraph in paragraphs for line in (*paragraph.lines, ""))
    blocks = [
        Block(" ".join(turn.lines), paragraph.pause, turn.speaker)
        for paragraph in paragraphs
        for turn in split_turns(paragraph.lines, speakers)
    ]
    return Reading(tuple(blocks), tuple(filter(None, omitted)))
