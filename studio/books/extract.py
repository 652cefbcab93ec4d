"""The process that reads a book: `python -m studio.books.extract KIND PATH` writes its text as JSON.

Its memory and time are limited, since parsers of these formats can take any amount of both for a malicious file.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from engine.errors import InvalidInput
from studio.books.book_text import BookText, Unreadable
from studio.books.docx import read_docx
from studio.books.epub import read_epub
from studio.books.metadata import plausible_author, plausible_title
from studio.books.pdf import read_pdf
from studio.pictures.covers import make_cover

MEMORY = 1536 << 20  # bytes
SECONDS = 60  # of processor time
READERS: dict[str, Callable[[Path], BookText]] = {"epub": read_epub, "docx": read_docx, "pdf": read_pdf}


def main(kind: str, path: str) -> None:
    """Write the text of a book with its metadata, or the key of an error sentence, to the standard output."""
    _bound()
    try:
        book = READERS[kind](Path(path))
        answer = {
            "title": plausible_title(book.title),
            "author": plausible_author(book.author, may_be_account=kind != "epub"),
            "cover": b64encode(_cover(book)).decode(),
            "blocks": [asdict(block) for block in book.blocks],
        }
    except Unreadable as error:
        answer = {"problem": error.key}
    except MemoryError:
        answer = {"problem": "books.too_large"}
    except Exception:  # the parsers raise many types for malformed files
        answer = {"problem": "books.damaged"}
    sys.stdout.write(json.dumps(answer))


def _cover(book: BookText) -> bytes:
    with suppress(InvalidInput):
        return make_cover(book.cover)
    return b""


def _bound() -> None:
    try:
        import resource
    except ImportError:  # Windows; the parent process limits the time
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
