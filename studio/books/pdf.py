"""PDF → text with chapters: paragraphs from the lines of its pages, chapters from the first level of its outline.

Page numbers and running heads at the edges of pages are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from studio.books.book_text import BookText, Unreadable, paragraphs_of

MAX_PAGES = 5_000
_REPEATED = 0.3  # share of the pages: a line at the edges of that many is a running head
_NUMBER = re.compile(r"[\W\d]*(?:page|seite|página|s\.|p\.)?[\W\d]*", re.IGNORECASE)


def read_pdf(path: Path) -> BookText:
    """Read a PDF. Raises Unreadable."""
    try:
        reader = PdfReader(str(path), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("books.encrypted")
        if len(reader.pages) > MAX_PAGES:
            raise Unreadable("books.too_large")
        title = (reader.metadata.title or "") if reader.metadata else ""
        chapters = _chapters(reader)
        pages = [_lines(page.extract_text()) for page in reader.pages]
    except Unreadable:
        raise
    except (PyPdfError, RecursionError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError) as error:
        raise Unreadable("books.damaged") from error
    except NotImplementedError as error:
        raise Unreadable("books.encrypted") from error
    if not any(character.isalpha() for page in pages for line in page for character in line):
        raise Unreadable("books.scanned")
    book = BookText(title=title)
    _add_pages(book, _without_edges(pages), chapters)
    return book


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def _chapters(reader: PdfReader) -> dict[int, str]:
    """Return the titles of the outline's first level, by page."""
    found: dict[int, str] = {}
    for entry in reader.outline:
        if not isinstance(entry, list):
            page = reader.get_destination_page_number(entry)
            if page is not None and page >= 0:
                found.setdefault(page, str(entry.title or ""))
    return found


def _without_edges(pages: list[list[str]]) -> list[list[str]]:
    """Return the pages without page numbers and running heads."""
    edges = Counter(key for lines in pages for key in {_key(line) for line in (*lines[:1], *lines[-1:])})
    often = {key for key, count in edges.items() if count >= max(3, _REPEATED * len(pages))}
    made = []
    for lines in pages:
        lines = list(lines)
        for at in (0, -1):
            while lines and (not lines[at].strip() or _NUMBER.fullmatch(lines[at]) or _key(lines[at]) in often):
                del lines[at]
        made.append(lines)
    return made


def _key(line: str) -> str:
    """Return a line without its numbers, which differ from page to page."""
    return re.sub(r"\d+", "", line).strip()


def _add_pages(book: BookText, pages: list[list[str]], chapters: dict[int, str]) -> None:
    """Add the paragraphs of the pages. They continue across pages, unless a chapter begins."""
    lengths = sorted(len(line.strip()) for lines in pages for line in lines if line.strip())
    width = lengths[len(lengths) * 3 // 4] if lengths else 0
    starts = sorted({0, *chapters})
    for start, end in zip(starts, [*starts[1:], len(pages)], strict=True):
        chapter = chapters.get(start)
        for text in paragraphs_of((line for lines in pages[start:end] for line in lines), width):
            book.add(text, chapter)
            chapter = None
