"""PDF → text with chapters: paragraphs from the lines of its pages, chapters from the first level of its outline.

Page numbers and running heads at the edges of pages are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from studio.books.book_text import BookText, Unreadable, paragraphs_of

MAX_PAGES = 5_000
_REPEATED = 0.3  # share of the pages: a line at the edges of that many is a running head
_NEARBY = 3  # pages between two with numbers
_DIGITS = 6  # of a page number
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
    heads = {key for key, count in edges.items() if count >= max(3, _REPEATED * len(pages))}
    pages = [_without_heads(lines, heads) for lines in pages]
    numbers = [{_number(line) for line in (*lines[:1], *lines[-1:])} - {None} for lines in pages]
    return [_without_heads(_without_numbers(lines, at, numbers), heads) for at, lines in enumerate(pages)]


def _without_heads(lines: list[str], heads: set[str]) -> list[str]:
    """Return the lines of a page without those at its edges that are running heads or have no words."""
    kept = [at for at, line in enumerate(lines) if any(map(str.isalnum, line)) and _key(line) not in heads]
    return lines[kept[0] : kept[-1] + 1] if kept else []


def _key(line: str) -> str:
    """Return a line without its numbers, which differ from page to page; one without letters as it is."""
    words = re.sub(r"\d+", "", line).strip()
    return words if any(map(str.isalpha, words)) else line.strip()


def _number(line: str) -> int | None:
    """Return the number of a line that may be a page number, alone or with the number of pages or the next page."""
    numbers = re.findall(r"\d+", line) if _NUMBER.fullmatch(line) else []
    return int(numbers[0]) if 1 <= len(numbers) <= 2 and len(numbers[0]) <= _DIGITS else None


def _without_numbers(lines: list[str], at: int, numbers: Sequence[Collection[int | None]]) -> list[str]:
    """Return the lines of page `at` without its number, which may be at both edges."""
    if lines and _counts_pages(_number(lines[0]), at, numbers):
        lines = lines[1:]
    if lines and _counts_pages(_number(lines[-1]), at, numbers):
        lines = lines[:-1]
    return lines


def _counts_pages(number: int | None, at: int, numbers: Sequence[Collection[int | None]]) -> bool:
    """Whether a number at an edge of page `at` goes with the numbers of pages nearby, or is that of the page itself.

    A page may show two pages of a book.
    """
    if number is None:
        return False
    steps = [step for step in range(-_NEARBY, _NEARBY + 1) if step and 0 <= at + step < len(numbers)]
    return number == at + 1 or any({number + step, number + 2 * step} & set(numbers[at + step]) for step in steps)


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
