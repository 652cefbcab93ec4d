"""Plain text → paragraphs. Lines that were wrapped at a column are joined."""

from dataclasses import replace

from engine.text.clean import join_wrapped, without_line_marks
from studio.script.formats.dialogue import SpeakerLines, find_speakers, split_by_speaker
from studio.script.formats.document import SECTION_PAUSE, Document, Paragraph, is_break
from studio.script.formats.printed_play import with_colons


def read_plain(text: str) -> Document:
    """Read plain text. `Name: …`, `[Name] …` and, in plays, `NAME. …` name speakers; `***` makes a longer pause."""
    paragraphs: list[Paragraph] = []
    unmarked = (line if is_break(line) else without_line_marks(line) for line in text.split("\n"))
    lines = with_colons([" ".join(line.split()) for line in unmarked])
    speakers = find_speakers(lines)
    group: list[str] = []
    for line in [*lines, ""]:
        if line and not is_break(line):
            group.append(line)
            continue
        for part in split_by_speaker(group, speakers):
            paragraphs += _paragraphs(part)
        group = []
        if line and paragraphs:
            paragraphs[-1] = replace(paragraphs[-1], pause=max(SECTION_PAUSE, paragraphs[-1].pause))
    return Document(tuple(paragraphs))


def _paragraphs(part: SpeakerLines) -> list[Paragraph]:
    """Return one paragraph for each line; lines that were wrapped automatically, as in emails, are joined."""
    return [Paragraph(text, speaker=part.speaker) for text in join_wrapped(part.lines)]
