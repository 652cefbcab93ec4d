"""Markdown → paragraphs: what a reader of the rendered page would read aloud, without code and addresses.

The syntax is that of CommonMark and GitHub (strike-through, task lists, tables, footnotes) as far as it changes what is
read aloud.
"""

import regex

from studio.script.formats.dialogue import find_speakers, split_by_speaker
from studio.script.formats.document import Document, Paragraph
from studio.script.formats.markdown_blocks import read_blocks

_FRONT_MATTER = regex.compile(r"\s*---\n(?=\S+:).*?\n(?:---|\.\.\.)(?:\n|$)", regex.DOTALL)

# Marks that do not occur in plain text by chance.
_MARKDOWN = regex.compile(r"(?m)^ {0,3}#{1,6} \S|^ {0,3}(?:```|~~~)|\[[^\[\]\n]+\]\([^\s()]+[()]|\*\*\S[^*\n]*\*\*")


def is_markdown(text: str) -> bool:
    """Whether text of unknown kind looks like Markdown."""
    return _MARKDOWN.search(text) is not None


def read_markdown(text: str) -> Document:
    """Read paragraphs, headings, list items and table rows, without their marks; headings have longer pauses.

    Raises InvalidText when the parser fails.
    """
    omitted: list[str] = []
    if front := _FRONT_MATTER.match(text):
        omitted.append(front[0].strip())
        text = text[front.end() :]
    blocks = read_blocks(text, omitted)
    speakers = find_speakers(line for block in blocks for line in (*block.lines, ""))
    paragraphs = [
        Paragraph(" ".join(part.lines), block.pause, part.speaker)
        for block in blocks
        for part in split_by_speaker(block.lines, speakers)
    ]
    return Document(tuple(paragraphs), tuple(filter(None, omitted)))
