"""Numbers that Word shows before paragraphs are read with them."""

import io
from pathlib import Path
from typing import Any

import docx
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from studio.books.word_numbers import WordNumbers
from tests.studio.books.test_reading import read, texts
from tests.support.linear import assert_linear

FORMATS = [
    [("decimal", "%1.", ""), ("decimal", "%1.%2", ""), ("lowerLetter", "%3)", "")],
    [("decimal", "Chapter %1", "Heading1"), ("decimal", "%2)", "Heading2")],
    [("bullet", "•", "")],
    [("upperRoman", "%1.", ""), ("decimal", "%1.%2", "")],
]


def lists() -> str:
    """Return lists 90, 91, … in these formats, and 99, which begins the first one anew at 5."""
    made, numbers = "", ""
    for at, levels in enumerate(FORMATS, 90):
        inner = "".join(
            f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{format}"/>'
            + (f'<w:pStyle w:val="{style}"/>' if style else "")
            + f'<w:lvlText w:val="{text}"/></w:lvl>'
            for level, (format, text, style) in enumerate(levels)
        )
        made += f'<w:abstractNum w:abstractNumId="{at}">{inner}</w:abstractNum>'
        numbers += f'<w:num w:numId="{at}"><w:abstractNumId w:val="{at}"/></w:num>'
    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    return f'{made}{numbers}<w:num w:numId="99"><w:abstractNumId w:val="90"/>{override}</w:num>'


def paragraph(text: str, number: int | None = None, level: int | None = 0, style: str = "") -> str:
    depth = "" if level is None else f'<w:ilvl w:val="{level}"/>'
    item = "" if number is None else f'<w:numPr>{depth}<w:numId w:val="{number}"/></w:numPr>'
    name = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{name}{item}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def word(*paragraphs: str) -> bytes:
    document, file = docx.Document(), io.BytesIO()
    numbering = document.part.part_related_by(RELATIONSHIP_TYPE.NUMBERING).element  # type: ignore[attr-defined]
    for element in parse_xml(f"<w:numbering {nsdecls('w')}>{lists()}</w:numbering>"):
        numbering.append(element)
    for style in ("Heading 1", "Heading 2"):
        properties = document.styles[style].element.get_or_add_pPr()
        properties.append(parse_xml(f'<w:numPr {nsdecls("w")}><w:numId w:val="91"/></w:numPr>'))
    for xml in paragraphs:
        document.element.body.append(parse_xml(xml.replace("<w:p>", f"<w:p {nsdecls('w')}>", 1)))
    document.save(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("paragraphs", "read_as"),
    [
        ([("One", 90), ("Text", None), ("Two", 90), ("Three", 90)], "1. One|Text|2. Two|3. Three"),
        ([("A", 90), ("B", 90, 1), ("C", 90, 1), ("D", 90), ("E", 90, 1)], "1. A|1.1 B|1.2 C|2. D|2.1 E"),
        ([("A", 90), ("B", 90, 2), ("C", 90)], "1. A|B|2. C"),
        ([("A", 90), ("B", 99), ("C", 99)], "1. A|5. B|6. C"),
        ([("A", 90), ("3. B", 90), ("", 90), ("C", 90)], "1. A|3. B|4. C"),
        ([("A", 92), ("B", 93), ("C", 93, 1), ("D", 12345), ("E", 90, 7)], "A|B|C|D|E"),
    ],
)
def test_items_of_numbered_lists(tmp_path: Path, paragraphs: list[tuple[str, int]], read_as: str) -> None:
    data = word(*(paragraph(*each) for each in paragraphs))
    assert [text for text, _ in texts(read(tmp_path, data))] == read_as.split("|")


def test_numbers_of_styles(tmp_path: Path) -> None:
    parts = [
        paragraph("The Rain", style="Heading1"),
        paragraph("Night", style="Heading2"),
        paragraph("Day", style="Heading2"),
        paragraph("Preface", 0, style="Heading1"),
        paragraph("", style="Heading1"),
        paragraph("First", style="ListNumber"),
        paragraph("Second", style="ListNumber"),
    ]
    assert texts(read(tmp_path, word(*parts))) == [
        ("Chapter 1 The Rain", "Chapter 1 The Rain"), ("1) Night", None), ("2) Day", None), ("Preface", "Preface"),
        ("Chapter 2", "Chapter 2"), ("1. First", None), ("2. Second", None),
    ]  # fmt: skip


LEVELS = '<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:lvlText w:val="%1."/><w:pStyle w:val="T{at}"/></w:lvl>'
STARTS = '<w:lvlOverride w:ilvl="-{at}"><w:startOverride w:val="1"/></w:lvlOverride>'
STYLES = '<w:style w:styleId="S{at}"><w:basedOn w:val="S{next}"/></w:style>'


@pytest.mark.parametrize(
    ("levels", "starts", "styles"),
    [(LEVELS, "", ""), (LEVELS, STARTS, ""), ("", "", STYLES)],
    ids=["levels", "starts", "styles"],
)
def test_lists_and_styles_of_any_number_are_read_in_linear_time(levels: str, starts: str, styles: str) -> None:
    def document(size: int) -> tuple[WordNumbers, list[Any]]:
        level, start, style = (
            "".join(each.format(at=at, next=at + 1) for at in range(size)) for each in (levels, starts, styles)
        )
        lists = (
            f'<w:abstractNum w:abstractNumId="1">{level}</w:abstractNum>'
            f'<w:num w:numId="1"><w:abstractNumId w:val="1"/>{start}</w:num>'
        )
        made = [parse_xml(f"<w:x {nsdecls('w')}>{each}</w:x>") for each in (lists, style)]
        item = paragraph("x", 1 if levels else None, None, "S0")
        return WordNumbers(*made), [parse_xml(item.replace("<w:p>", f"<w:p {nsdecls('w')}>", 1))] * size

    def number_all(document: tuple[WordNumbers, list[Any]]) -> None:
        numbers, paragraphs = document
        for each in paragraphs:
            numbers.numbered("x", each)

    assert_linear(number_all, document, 8_000 if levels else 2_000, limit=4.0)
