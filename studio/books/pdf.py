"""PDF → text with chapters: paragraphs from the lines of its pages, chapters from the first level of its outline.

A chapter begins at the line of its title, or else at the top of its page. Page numbers and running heads at the edges
of pages are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from studio.books.book_text import ENDS, HEADING_WIDTH, BookText, Unreadable, paragraphs_of

MAX_PAGES = 5_000
_REPEATED = 0.3  # share of the pages: a line at the edges of that many is a running head
_NEARBY = 3  # pages between two with numbers
_DIGITS = 6  # of a page number
_TITLE_LINES = 3
_NUMBER = re.compile(r"[\W\d]*+(?:page|seite|página|s\.|p\.)?[\W\d]*", re.IGNORECASE)
_ROMAN = re.compile(r"\W*([ivxlc]{1,8})\W*")  # of prefaces
_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def read_pdf(path: Path) -> BookText:
    """Read a PDF. Raises Unreadable."""
    try:
        reader = PdfReader(str(path), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("books.encrypted")
        if len(reader.pages) > MAX_PAGES:
            raise Unreadable("books.too_large")
        metadata = reader.metadata
        title, author = (metadata.title or "", metadata.author or "") if metadata else ("", "")
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
    book = BookText(title, author)
    _add_pages(book, _without_edges(pages, chapters), chapters)
    return book


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def _chapters(reader: PdfReader) -> dict[int, list[str]]:
    """Return the titles of the outline's first level by page, or those below its only entry, as the book's title is."""
    entries: Sequence[Any] = reader.outline
    while len(entries) == 2 and isinstance(entries[1], list):
        entries = entries[1]
    found: dict[int, list[str]] = {}
    for entry in entries:
        if not isinstance(entry, list):
            page = reader.get_destination_page_number(entry)
            if page is not None and page >= 0:
                found.setdefault(page, []).append(str(entry.title or ""))
    return found


def _without_edges(pages: Sequence[list[str]], chapters: Mapping[int, Sequence[str]]) -> list[list[str]]:
    """Return the pages without page numbers and running heads. chapters: titles of those that begin, by page."""
    pages = _without_heads(pages, chapters)
    numbers = [{_number(line) for line in (*lines[:1], *lines[-1:])} - {None} for lines in pages]
    return _without_heads([_without_numbers(lines, at, numbers) for at, lines in enumerate(pages)], chapters)


def _without_heads(pages: Sequence[list[str]], chapters: Mapping[int, Sequence[str]]) -> list[list[str]]:
    """Return the pages without lines at their edges that are running heads or have no words; titles are kept.

    A running head is at the edges of many pages, such as a book's title, or of pages nearby, such as a chapter's, and
    there more often than elsewhere, unlike the name of a speaker.
    """
    edges = Counter(key for lines in pages for key in {_key(line) for line in (*lines[:1], *lines[-1:])})
    inside = Counter(_key(line) for lines in pages for line in lines[1:-1])
    often = max(3, _REPEATED * len(pages))

    def is_left_out(at: int, lines: Sequence[str]) -> bool:
        """Whether the first of these lines of page `at` is left out."""
        line, titles = lines[0], chapters.get(at, ())
        if not any(map(str.isalnum, line)):
            return True
        count = edges[_key(line)]
        is_head = count > inside[_key(line)] and (count >= often or _is_repeated(line, at, pages))
        return is_head and not any(_is_title(lines, title) and not is_below(lines, title) for title in titles)

    def is_below(lines: Sequence[str], title: str) -> bool:
        """Whether a title is also soon after the first of these lines, which is a running head then."""
        return any(_is_title(lines[below : below + _TITLE_LINES], title) for below in range(1, len(lines)))

    kept = []
    for at, lines in enumerate(pages):
        start, end = 0, len(lines)
        while start < end and is_left_out(at, lines[start : min(start + 2 * _TITLE_LINES, end)]):
            start += 1
        while start < end and is_left_out(at, lines[end - 1 : end]):
            end -= 1
        kept.append(lines[start:end])
    return kept


def _is_repeated(line: str, at: int, pages: Sequence[list[str]]) -> bool:
    """Whether a line of words is at an edge of a page near page `at`, with the number of that page if it has one.

    One that ends like a sentence may be a refrain.
    """
    if not any(map(str.isalpha, line)) or line.endswith(ENDS):
        return False
    steps = [step for step in range(-_NEARBY, _NEARBY + 1) if step and 0 <= at + step < len(pages)]
    others = ((step, other) for step in steps for other in (*pages[at + step][:1], *pages[at + step][-1:]))
    return any(_corresponds(line, other, step) for step, other in others)


def _corresponds(line: str, other: str, step: int) -> bool:
    """Whether two lines are the same, but for numbers that differ like the numbers of their pages."""
    mine, theirs = ([int(number) for number in re.findall(r"\d{1,9}", each)] for each in (line, other))
    same = _key(line) == _key(other) and len(mine) == len(theirs)
    return same and {after - before for before, after in zip(mine, theirs, strict=True)} <= {0, step}


def _key(line: str) -> str:
    """Return a line without its numbers, which differ from page to page; one without letters as it is."""
    words = re.sub(r"\d+", "", line).strip()
    return words if any(map(str.isalpha, words)) else line.strip()


def _number(line: str) -> int | None:
    """Return the number of a line that may be a page number, alone or with the number of pages or the next page."""
    if found := _ROMAN.fullmatch(line):
        return sum(
            -one if one < following else one
            for one, following in pairwise([*(_VALUES[letter] for letter in found[1]), 0])
        )
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


def _add_pages(book: BookText, pages: list[list[str]], chapters: dict[int, list[str]]) -> None:
    """Add the paragraphs of the pages. They continue across pages, unless a chapter begins."""
    lengths = sorted(len(line.strip()) for lines in pages for line in lines if line.strip())
    width = lengths[len(lengths) * 3 // 4] if lengths else 0
    starts: dict[int, str] = {}
    first = 0
    for number, page in enumerate(pages):
        starts |= {first + line: title for line, title in _begun(page, chapters.get(number, []), width).items()}
        first += len(page)
    lines = [line for page in pages for line in page]
    cuts = sorted({0, *starts})
    for start, end in zip(cuts, [*cuts[1:], len(lines)], strict=True):
        chapter = starts.get(start)
        for text in paragraphs_of(iter(lines[start:end]), width):
            book.add(text, chapter)
            chapter = None


def _begun(page: list[str], titles: list[str], width: int) -> dict[int, str]:
    """Return the chapters that begin on a page, by line. Headings above the first title belong to its chapter."""
    begun: dict[int, str] = {}
    for title in titles:
        lines = range(max(begun, default=-1) + 1, len(page))
        line = next((at for at in lines if _is_title(page[at : at + _TITLE_LINES], title)), None)
        if not begun and not any(len(above.strip()) >= HEADING_WIDTH * width for above in page[: line or 0]):
            line = 0
        if line is not None:
            begun[line] = title
    return begun


def _is_title(lines: Sequence[str], title: str) -> bool:
    """Whether the first line, or the first lines together, are a title, but for its number, its marks and its case."""
    wanted = _letters(title)
    return any(_letters("".join(lines[:count])) == wanted for count in range(1, _TITLE_LINES + 1))


def _letters(text: str) -> str:
    letters = "".join(filter(str.isalnum, text.casefold()))
    return letters.lstrip("0123456789") or letters
