"""Books → scripts with chapters: one for each book, or several if a book is too long for one script."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import InvalidText
from engine.text.tags import is_speakable
from storage.scripts.limits import MAX_CHAPTER
from studio.files.zip_directory import has_short_directory
from studio.script.cards import Script, cards_of
from studio.script.formats.dialogue import find_speakers, split_by_speaker
from studio.script.formats.document import (
    HEADING_PAUSE,
    PARAGRAPH_PAUSE,
    SECTION_PAUSE,
    Document,
    Paragraph,
    is_break,
)
from studio.script.formats.printed_play import with_colons

BookKind = Literal["epub", "docx", "pdf"]
_KINDS: dict[str, BookKind] = {".epub": "epub", ".docx": "docx", ".pdf": "pdf"}  # by suffix
SUFFIXES = tuple(_KINDS)
SECONDS = 90.0  # until a reader is stopped
MAX_CHARACTERS = 400_000  # of a script
MAX_PARAGRAPHS = 4_000
MAX_DIRECTORY = 2 << 20  # bytes of the directory of a ZIP file whose kind is detected by its members
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Book:
    """A book as scripts, in order, at least one. title: "" if unknown. cover: a JPEG, or empty."""

    scripts: tuple[Script, ...]
    title: str = ""
    cover: bytes = b""


def book_kind(path: Path) -> BookKind | None:
    """Return the kind of a book, by its content, or by its name if it is damaged; None for another file."""
    with path.open("rb") as file:
        start = file.read(1024)
    return "pdf" if b"%PDF-" in start else _by_members(path) or _KINDS.get(path.suffix.lower())


def _by_members(path: Path) -> BookKind | None:
    try:
        with path.open("rb") as file:
            if not has_short_directory(file, MAX_DIRECTORY):
                return None
            with zipfile.ZipFile(file) as archive:
                names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    return "docx" if "word/document.xml" in names else "epub" if "META-INF/container.xml" in names else None


def read_book(path: Path, kind: BookKind) -> Book:
    """Read a book in a separate process. Raises InvalidText for one that cannot be read or has no words."""
    text = _extracted(path, kind)
    if "problem" in text:
        raise InvalidText(_key(text))
    parts = filter(_has_words, _parts(list(_paragraphs(text["blocks"]))))
    scripts = tuple(cards_of(Document(tuple(part), author=text["author"])) for part in parts)
    if not scripts:
        raise InvalidText("books.no_text")
    return Book(scripts, text["title"], b64decode(text["cover"]))


def _extracted(path: Path, kind: BookKind) -> dict[str, Any]:
    command = [sys.executable, "-m", "studio.books.extract", kind, str(path.resolve())]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise InvalidText("books.too_large") from error
    except subprocess.CalledProcessError as error:  # stopped at its limit of memory or time
        raise InvalidText("books.too_large" if error.returncode < 0 else "books.damaged") from error
    except ValueError as error:
        raise InvalidText("books.damaged") from error
    return answer


def _key(answer: dict[str, Any]) -> str:
    """Return the key of the sentence that says why a book was not read."""
    return str(answer["problem"])


def _paragraphs(blocks: list[dict[str, Any]]) -> Iterator[Paragraph]:
    """Yield the paragraphs, with longer pauses between scenes, before a chapter and after its heading, and a
    dialogue's by speaker.
    """
    blocks = _without_breaks(blocks)
    texts = with_colons([line for block in blocks for line in (str(block["text"]), "")])[::2]
    speeches = (line for block, text in zip(blocks, texts, strict=True) if not block["chapter"] for line in (text, ""))
    speakers = find_speakers(speeches, throughout=True)
    for number, (block, text) in enumerate(zip(blocks, texts, strict=True)):
        chapter = block["chapter"]
        ends_section = block["ends_scene"] or (number + 1 < len(blocks) and blocks[number + 1]["chapter"])
        pause = HEADING_PAUSE if chapter and len(text) <= MAX_CHAPTER else PARAGRAPH_PAUSE
        (part,) = split_by_speaker([text], frozenset() if chapter else speakers)
        yield Paragraph(" ".join(part.lines), SECTION_PAUSE if ends_section else pause, part.speaker, chapter=chapter)


def _without_breaks(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks without separators such as "* * *"; ends_scene: whether there was one after a block.

    A chapter that begins with a separator begins with the block after it.
    """
    kept: list[dict[str, Any]] = []
    chapter = None
    for block in blocks:
        chapter = block["chapter"] or chapter
        if not is_break(block["text"]):
            kept.append({"text": block["text"], "chapter": chapter, "ends_scene": False})
            chapter = None
        elif kept:
            kept[-1]["ends_scene"] = True
    return kept


def _has_words(paragraphs: list[Paragraph]) -> bool:
    """Whether there is anything to say: the last part of a long book may be no more than an ornament."""
    return any(is_speakable(paragraph.text) for paragraph in paragraphs)


def _parts(paragraphs: list[Paragraph]) -> Iterator[list[Paragraph]]:
    """Divide paragraphs so that no script is too long: at the beginning of a chapter if possible."""
    part: list[Paragraph] = []
    size = 0
    for paragraph in paragraphs:
        full = size + len(paragraph.text) > MAX_CHARACTERS or len(part) >= MAX_PARAGRAPHS
        if part and full:
            cut = next((at for at in range(len(part) - 1, len(part) // 2, -1) if part[at].chapter), len(part))
            cut = len(part) if paragraph.chapter else cut
            yield part[:cut]
            part = part[cut:]
            size = sum(len(each.text) for each in part)
        part.append(paragraph)
        size += len(paragraph.text)
    if part:
        yield part
