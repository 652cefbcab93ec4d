"""Markdown → paragraphs: the text that a person would read aloud from the rendered page, without code and addresses.

The syntax is that of CommonMark and GitHub (strike-through, task lists, tables, footnotes) as far as it changes what is
read aloud.
"""

import regex

from storage.scripts.limits import MAX_CHAPTER
from studio.script.formats.card_marks import read_names
from studio.script.formats.dialogue import find_speakers, split_by_speaker
from studio.script.formats.document import Document, Paragraph
from studio.script.formats.markdown_blocks import MarkdownBlock, read_blocks

CHAPTER_LEVELS = 2  # of headings that begin chapters
_FRONT_MATTER = regex.compile(r"\s*---\n(?=\S+:).*?\n(?:---|\.\.\.)(?:\n|$)", regex.DOTALL)
_SPEAKERS = regex.compile(r"(?m)^speakers:[^\S\n]*(.+)\n")

# Syntax that does not occur in plain text by chance.
_MARKDOWN = regex.compile(r"(?m)^ {0,3}#{1,6} \S|^ {0,3}(?:```|~~~)|\[[^\[\]\n]+\]\([^\s()]+[()]|\*\*\S[^*\n]*\*\*")


def is_markdown(text: str) -> bool:
    """Return whether text of unknown format looks like Markdown."""
    return _MARKDOWN.search(text) is not None


def read_markdown(text: str) -> Document:
    """Read paragraphs, headings, list items and table rows, without their markup; headings have longer pauses.

    Headings of the first two levels begin chapters. `speakers: Anna; Ben` in the front matter names the speakers, as
    `to_markdown` writes them.

    Raises InvalidText when the parser fails.
    """
    omitted: list[str] = []
    listed: frozenset[str] = frozenset()
    if front := _FRONT_MATTER.match(text):
        text = text[front.end() :]
        rest = front[0]
        if named := _SPEAKERS.search(rest):
            listed = read_names(named[1])
            rest = rest[: named.start()] + rest[named.end() :]
        if len(rest.strip().splitlines()) > 2:  # more than the delimiters
            omitted.append(rest.strip())
    blocks = read_blocks(text, omitted)
    speakers = find_speakers(line for block in blocks for line in (*block.lines, ""))
    paragraphs = [
        _paragraph(" ".join(part.lines), block, part.speaker)
        for block in blocks
        for part in split_by_speaker(block.lines, speakers, listed)
    ]
    return Document(tuple(paragraphs), tuple(filter(None, omitted)))


def _paragraph(text: str, block: MarkdownBlock, speaker: str | None) -> Paragraph:
    chapter = text[:MAX_CHAPTER].strip() if 1 <= block.level <= CHAPTER_LEVELS else None
    return Paragraph(text, block.pause, speaker, chapter=chapter)
