"""Word documents → text with chapters, which begin at headings of the first level and at the title.

The text is that of the final version: tracked insertions are read, deletions are not.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import docx
from docx.document import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.exceptions import OpcError
from docx.oxml.ns import qn
from lxml.etree import LxmlError

from studio.books.book_text import Archive, BookText, Unreadable, raised
from studio.books.word_numbers import WordNumbers, value_of

_CONTENTS = re.compile(r"(?i)(?:toc|contents) ?(?:[1-9]|heading)")  # styles of a table of contents
_CHAPTER = re.compile(r"(?i)(?:heading|überschrift|titre|título|encabezado|見出し|标题)\s*1|title")
_PARAGRAPH, _RUN, _TABLE, _ROW, _CELL, _TEXT, _CONTROL = map(
    qn, ("w:p", "w:r", "w:tbl", "w:tr", "w:tc", "w:t", "w:sdt")
)
_FORMULA, _FORMULA_RUN, _FORMULA_TEXT = map(qn, ("m:oMath", "m:r", "m:t"))
_OPERAND = f".//{qn('m:e')}"  # of a fraction, a root, a power and the like
_SIGNS = {qn("w:tab"): " ", qn("w:ptab"): " ", qn("w:br"): " ", qn("w:cr"): " ", qn("w:noBreakHyphen"): "-"}
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_ALTERNATIVES = f"{_COMPATIBILITY}AlternateContent"  # of pictures
_PROPERTIES, _RUBY_READING = qn("w:pPr"), qn("w:rt")
_LEFT_OUT = {_PROPERTIES, _RUBY_READING, _ALTERNATIVES}.union(
    map(qn, ("w:del", "w:moveFrom", "w:drawing", "w:pict", "w:object"))
)
_BOX = qn("w:txbxContent")  # the text of a text box
_NO_BOXES = {_PROPERTIES, _RUBY_READING, f"{_COMPATIBILITY}Fallback", qn("w:del"), qn("w:moveFrom")}
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")  # namespaces of ISO/IEC 29500 Strict
_PLACEHOLDER = f"{qn('w:sdtPr')}/{qn('w:showingPlcHdr')}"
_HIDDEN, _POSITION = f"{qn('w:rPr')}/{qn('w:vanish')}", f"{qn('w:rPr')}/{qn('w:vertAlign')}"
_STYLE = f"{_PROPERTIES}/{qn('w:pStyle')}"
_DELETED_END = f"{_PROPERTIES}/{qn('w:rPr')}/{qn('w:del')}"
_GALLERY = f"{qn('w:sdtPr')}/{qn('w:docPartObj')}/{qn('w:docPartGallery')}"


def read_docx(path: Path) -> BookText:
    """Read a Word document. Raises Unreadable."""
    Archive(path).check_sizes()
    try:
        document = docx.Document(_transitional(path))
        book, numbers = BookText(*_metadata(document)), WordNumbers(_numbering(document), document.styles.element)
        styles = {each.get(qn("w:styleId")): value_of(each, qn("w:name")) or "" for each in document.styles.element}
        begun = ""  # of a paragraph whose end is deleted
        for part in _nearest(document.element.body, (_PARAGRAPH, _TABLE)):
            if part.tag == _TABLE:
                for row in (*_rows(part), *_box_texts(part)):
                    book.add(row)
                continue
            begun += _text(part)
            if part.find(_DELETED_END) is None:
                name, text, begun = styles.get(value_of(part, _STYLE), ""), " ".join(begun.split()), ""
                if not _CONTENTS.fullmatch(name):
                    text = numbers.numbered(text, part)
                    book.add(text, text if _CHAPTER.fullmatch(name) else None)
            for text in _box_texts(part):
                book.add(text)
        book.add(begun)
    except (OpcError, LxmlError, BadZipFile, KeyError, ValueError, AttributeError, OSError) as error:
        raise Unreadable("books.damaged") from error
    return book


def _transitional(path: Path) -> str | IO[bytes]:
    """Return a document, if it is in the strict form of the format, in the usual form, which has other namespaces."""
    with ZipFile(path) as strict:
        if not _STRICT.search(strict.read("_rels/.rels")):
            return str(path)
        usual = io.BytesIO()
        with ZipFile(usual, "w") as written:
            for name in strict.namelist():
                data = strict.read(name)
                is_xml = name.endswith((".xml", ".rels"))
                usual_form = rb"http://schemas.openxmlformats.org/\1/2006/\2"
                written.writestr(name, _STRICT.sub(usual_form, data) if is_xml else data)
    return usual


def _metadata(document: Document) -> tuple[str, str]:
    """Return title and author in the document's properties. For a document without them, python-docx makes some up."""
    kinds = {relation.reltype for relation in document.part.package.rels.values()}
    if RELATIONSHIP_TYPE.CORE_PROPERTIES not in kinds:
        return "", ""
    return document.core_properties.title, document.core_properties.author


def _numbering(document: Document) -> Any:
    parts = (each.target_part for each in document.part.rels.values() if each.reltype == RELATIONSHIP_TYPE.NUMBERING)
    return next((getattr(part, "element", None) for part in parts), None)


def _nearest(element: Any, tags: Collection[str]) -> Iterator[Any]:
    """Yield the elements with these tags inside of another, but not those inside of each other."""
    for child in element:
        if child.tag in tags:
            yield child
        elif child.tag not in _LEFT_OUT and not _is_left_out(child):
            yield from _nearest(child, tags)


def _is_left_out(element: Any) -> bool:
    """Whether an element is a formula of more than a line, such as a fraction, or a control without text of its own."""
    return (element.tag == _FORMULA and element.find(_OPERAND) is not None) or (
        element.tag == _CONTROL and _is_generated(element)
    )


def _is_generated(control: Any) -> bool:
    """Whether a content control is a table of contents, or has only the placeholder for its text."""
    gallery = control.find(_GALLERY)
    is_contents = gallery is not None and gallery.get(qn("w:val")) == "Table of Contents"
    return is_contents or control.find(_PLACEHOLDER) is not None


def _box_texts(element: Any) -> Iterator[str]:
    """Yield the paragraphs and rows of the text boxes that are anchored in a paragraph or in one of its parts."""
    for child in element:
        if child.tag == _BOX:
            for part in _nearest(child, (_PARAGRAPH, _TABLE)):
                yield from _rows(part) if part.tag == _TABLE else (_text(part),)
                yield from _box_texts(part)
        elif child.tag not in _NO_BOXES:
            yield from _box_texts(child)


def _text(paragraph: Any) -> str:
    return "".join(map(_run_text, _nearest(paragraph, (_RUN, _FORMULA_RUN))))


def _run_text(run: Any) -> str:
    """Return the text of a run, a raised number in raised digits; "" if it is hidden."""
    hidden, position = run.find(_HIDDEN), run.find(_POSITION)
    if hidden is not None and hidden.get(qn("w:val")) not in ("0", "false", "off"):
        return ""
    text = "".join(_SIGNS.get(each.tag, each.text or "") for each in _nearest(run, (_TEXT, _FORMULA_TEXT, *_SIGNS)))
    return raised(text) if position is not None and position.get(qn("w:val")) == "superscript" else text


def _rows(table: Any) -> Iterator[str]:
    """Yield the text of each row: its cells, read like a list."""
    for row in _nearest(table, (_ROW,)):
        yield ", ".join(filter(None, map(_cell, _nearest(row, (_CELL,)))))


def _cell(cell: Any) -> str:
    parts = _nearest(cell, (_PARAGRAPH, _TABLE))
    texts = (text for part in parts for text in (_rows(part) if part.tag == _TABLE else [_text(part)]))
    return " ".join(" ".join(texts).split())
