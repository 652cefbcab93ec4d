"""Word documents → text with chapters, which begin at headings of the first level and at the title."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import BadZipFile

import docx
from docx.opc.exceptions import OpcError
from docx.table import Table
from lxml.etree import LxmlError

from studio.books.book_text import Archive, BookText, Unreadable

_CHAPTER = re.compile(r"(?i)(?:heading|überschrift|titre|título|encabezado|見出し|标题)\s*1|title")


def read_docx(path: Path) -> BookText:
    """Read a Word document. Raises Unreadable."""
    Archive(path).check_sizes()
    try:
        document = docx.Document(str(path))
        book = BookText(title=(document.core_properties.title or ""))
        for part in document.iter_inner_content():
            if isinstance(part, Table):
                for row in part.rows:
                    book.add(", ".join(dict.fromkeys(cell.text.strip() for cell in row.cells if cell.text.strip())))
            else:
                style = part.style.name or "" if part.style is not None else ""
                book.add(part.text, part.text if _CHAPTER.fullmatch(style) else None)
    except (OpcError, LxmlError, BadZipFile, KeyError, ValueError, AttributeError, OSError) as error:
        raise Unreadable("books.damaged") from error
    return book
