"""Shared code of the book readers. Of the engine, it imports only how lines are joined, to keep their process small."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote

import regex

from engine.text.clean import before_next_line
from storage.scripts.limits import MAX_CHAPTER

MAX_PART = 32 << 20  # bytes of one file in an archive
MAX_ARCHIVE = 256 << 20  # bytes of all files that are read
MAX_FILES = 20_000  # in an archive
MAX_TEXT = 5_000_000  # characters
HEADING_WIDTH = 0.6  # of a full line: shorter lines may be headings
ENDS = (".", "!", "?", "…", '"', "”", "»", "’", ":", "。", "！", "？", "」")  # of paragraphs
_EXPONENT = regex.compile(r"[+\-–\u2212]?\d{1,4}")
_RAISED = str.maketrans("0123456789+-–\u2212", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_ORNAMENT = regex.compile(r"(?:[*#~_•·※§\-–—\s]|[^\p{L}\p{M}\p{N}\p{P}])+")  # a line between two scenes
_NO_CHARACTER = regex.compile(r"[\p{Cs}\p{Co}\p{Noncharacter_Code_Point}\ufeff]|[^\P{Cc}\s]")


class Unreadable(Exception):
    """A book that cannot be read. key: of the error sentence."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass
class BookBlock:
    """A paragraph, heading or list item. chapter: the title of the chapter that begins with it."""

    text: str
    chapter: str | None = None


@dataclass
class BookText:
    """The text of a book. title, author: as in its metadata, "" if there are none. cover: a picture, or empty."""

    title: str = ""
    author: str = ""
    cover: bytes = b""
    blocks: list[BookBlock] = field(default_factory=list)
    characters: int = 0

    def add(self, text: str, chapter: str | None = None) -> None:
        """Append a block, with its spaces collapsed, unless it is empty. Raises Unreadable if the book is too long."""
        text = " ".join(text.split())
        if text:
            self.blocks.append(BookBlock(text, shortened(chapter or "") or None))
            self.characters += len(text)
            if self.characters > MAX_TEXT:
                raise Unreadable("books.too_long")


def shortened(title: str) -> str:
    """Cut a title to MAX_CHAPTER characters and collapse its spaces, without what is no character of a text."""
    return " ".join(_NO_CHARACTER.sub("", title)[:MAX_CHAPTER].split())


def raised(text: str) -> str:
    """Return an exponent in raised digits, and other text as it is."""
    return text.translate(_RAISED) if _EXPONENT.fullmatch(text) else text


class Archive:
    """A ZIP file with limits on the size of the parts that are read. names: of all parts, with slashes."""

    def __init__(self, path: Path) -> None:
        """Raises Unreadable for a file that is not an archive, or has too many files."""
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise Unreadable("books.damaged") from error
        if len(self._zip.infolist()) > MAX_FILES:
            raise Unreadable("books.too_large")
        self._parts = {part.filename.replace("\\", "/"): part for part in self._zip.infolist()}
        self.names = self._parts.keys()
        self._plain = {_plain(name): name for name in self.names}
        self._left = MAX_ARCHIVE

    def name_of(self, path: str) -> str:
        """Return the name of the part that a path in a link means; the path itself if there is none.

        Names that differ in encoding, Unicode form or case are those of archives that were packed anew.
        """
        path = posixpath.normpath(path).lstrip("/")
        exact = (each for each in (unquote(path), path) if each in self.names)
        return next(exact, self._plain.get(_plain(path), path))

    def read(self, name: str) -> bytes:
        """Read a part. Raises Unreadable if it is missing, encrypted, damaged or too large."""
        try:
            part = self._parts[name]
            if part.flag_bits & 1:
                raise Unreadable("books.encrypted")
            with self._zip.open(part) as file:
                data = file.read(min(MAX_PART, self._left) + 1)
        except Unreadable:
            raise
        except Exception as error:  # of zipfile, zlib and the other decompressors
            raise Unreadable("books.damaged") from error
        if len(data) > min(MAX_PART, self._left):
            raise Unreadable("books.too_large")
        self._left -= len(data)
        return data

    def check_sizes(self) -> None:
        """Check the declared sizes of all XML files; parsers read no more of a file than its declared size.

        Raises Unreadable, also for an encrypted file.
        """
        sizes = [part.file_size for part in self._zip.infolist() if part.filename.endswith((".xml", ".rels"))]
        if any(size > MAX_PART for size in sizes) or sum(sizes) > MAX_ARCHIVE:
            raise Unreadable("books.too_large")
        if any(part.flag_bits & 1 for part in self._zip.infolist()):
            raise Unreadable("books.encrypted")


def _plain(path: str) -> str:
    return normalize("NFC", unquote(path)).casefold()


def paragraphs_of(lines: Iterator[str], width: int) -> Iterator[str]:
    """Join lines into paragraphs. width: characters of a full line; a short line can end a paragraph."""
    group: list[str] = []
    for line in lines:
        text = line.strip()
        is_ornament = _ORNAMENT.fullmatch(text) is not None
        if group and (is_ornament or _begins(text, group[-1], width)):
            yield _joined(group)
            group = []
        if text:
            group.append(text)
        ends = text.endswith(ENDS)
        if group and (not text or is_ornament or (ends and len(text) < 0.8 * width)):
            yield _joined(group)
            group = []
    if group:
        yield _joined(group)


def _begins(text: str, before: str, width: int) -> bool:
    """Whether a line begins a paragraph after a short one."""
    return text[:1].isupper() and len(before) < HEADING_WIDTH * width


def _joined(lines: list[str]) -> str:
    parts = lines[:1]
    for line in lines[1:]:
        parts[-1] = before_next_line(parts[-1], line)
        parts.append(line)
    return "".join(parts)
