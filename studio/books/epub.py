"""EPUB 2 and 3 → text with chapters: the documents of the spine in order, with the titles of the table of contents."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

from studio.books.book_text import Archive, BookText, Unreadable
from studio.books.html_blocks import read_blocks, text_of
from studio.books.markup import parse_html, parse_xml
from studio.books.styles import HiddenClasses, hidden_classes, links_to_sheets, own_sheets

_HEADINGS = frozenset({"h1", "h2"})
_NO_DOCUMENTS = ("image/", "audio/", "video/", "application/pdf")  # which a spine should not have
_ROLE = "{http://www.idpf.org/2007/opf}role"
_LEVELS = 2  # of the table of contents, that begin chapters


Titles = dict[str, str]
"""The chapters of a document: titles by the id of the element that they begin with; "" for the document's start."""

Entry = tuple[int, str, str]
"""An entry of a table of contents: its level, from 1 on, its address, and its title."""


def read_epub(path: Path) -> BookText:
    """Read an EPUB. Raises Unreadable."""
    archive = Archive(path)
    package = _package_path(archive)
    root = parse_xml(archive.read(package))
    book = BookText(_first(root, "title"), _authors(root))
    titles = _contents(archive, package, _named(root, "item"))
    places = _documents(archive, package, root, titles)
    if not places:
        raise Unreadable("books.damaged")
    if not _encrypted(archive).isdisjoint(places):
        raise Unreadable("books.encrypted")
    waiting: Titles = {}  # of documents without text, such as pictures
    sheets: dict[str, str] = {}
    for place in places:
        begun, document = titles.get(place) or waiting, parse_html(archive.read(place))
        hidden = hidden_classes([*_linked_sheets(archive, place, document, sheets), *own_sheets(document)])
        waiting = {} if _read_document(document, begun, hidden, book) else begun
    book.cover = _cover(archive, package, root)
    return book


def _linked_sheets(archive: Archive, place: str, document: Any, read: dict[str, str]) -> Iterator[str]:
    """Yield the style sheets that a document at `place` links to. read: those that have been read, by place."""
    for href in links_to_sheets(document):
        sheet = _target(archive, place, href)
        if sheet not in read:
            read[sheet] = ""
            with suppress(Unreadable):
                read[sheet] = archive.read(sheet).decode("utf-8", "replace")
        yield read[sheet]


def _package_path(archive: Archive) -> str:
    """Return the package that the container names, or else any, as if the book's folder was packed with its name."""
    paths = []
    with suppress(Unreadable):
        container = parse_xml(archive.read("META-INF/container.xml"))
        paths = [archive.name_of(file.get("full-path") or "") for file in _named(container, "rootfile")]
    paths += sorted(name for name in archive.names if name.endswith(".opf") and not name.startswith("__MACOSX/"))
    for path in paths:
        if path in archive.names:
            return path
    raise Unreadable("books.damaged")


def _documents(archive: Archive, package: str, root: Any, titles: Collection[str]) -> list[str]:
    """Return the documents of the spine, without those outside of the reading order that the contents do not name."""
    items = {item.get("id"): item for item in _named(root, "item")}
    found: dict[str, bool] = {}  # whether it is in the reading order
    for ref in _named(root, "itemref"):
        item = items.get(ref.get("idref"))
        place = "" if item is None else _target(archive, package, item.get("href") or "")
        if item is not None and place in archive.names and not (item.get("media-type") or "").startswith(_NO_DOCUMENTS):
            found.setdefault(place, ref.get("linear") != "no" or place in titles)
    return [place for place, is_read in found.items() if is_read] or [*found]


def _named(root: Any, name: str) -> list[Any]:
    """Return the elements with this name, in any namespace."""
    return list(root.iter(f"{{*}}{name}"))


def _first(root: Any, name: str) -> str:
    texts = (" ".join("".join(each.itertext()).split()) for each in _named(root, name))
    return next(filter(None, texts), "")


def _authors(root: Any) -> str:
    """Return the creators of the text; all of them if none is an author, as for a collection that has an editor."""
    metas = _named(root, "meta")
    roles = {each.get("refines"): text_of(each) for each in metas if each.get("property") == "role"}  # EPUB 3
    creators = [
        (text_of(each), each.get(_ROLE) or roles.get(f"#{each.get('id')}", "")) for each in _named(root, "creator")
    ]
    names = [name for name, role in creators if role in ("", "aut")] or [name for name, _ in creators]
    return " & ".join(dict.fromkeys(filter(None, (" ".join(name.split()) for name in names))))


def _cover(archive: Archive, package: str, root: Any) -> bytes:
    """Return the picture that the package names as the cover, or that the cover's page shows; empty if there is none
    that can be read.
    """
    for href in _cover_links(root):
        with suppress(Unreadable):
            place = _target(archive, package, href)
            data = archive.read(place)
            if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
                return data
            if picture := next(_picture_links(parse_html(data)), ""):
                return archive.read(_target(archive, place, picture))
    return b""


def _cover_links(root: Any) -> Iterator[str]:
    """Yield the addresses that a package names as its cover, as EPUB 3 does and as EPUB 2 does in two ways."""
    items = _named(root, "item")
    names = {each.get("content") for each in _named(root, "meta") if each.get("name") == "cover"}
    named = [item for item in items if "cover-image" in (item.get("properties") or "").split()]
    named += [item for item in items if names & {item.get("id"), item.get("href")}]
    named += [each for each in _named(root, "reference") if each.get("type") == "cover"]
    yield from filter(None, (each.get("href") for each in named))


def _picture_links(document: Any) -> Iterator[str]:
    for picture in document.iter("img", "image"):
        yield from filter(None, (picture.get(name) for name in ("src", "xlink:href", "href")))


def _target(archive: Archive, base: str, href: str) -> str:
    return archive.name_of(posixpath.join(posixpath.dirname(base), urldefrag(href)[0]))


def _encrypted(archive: Archive) -> set[str]:
    """Return the encrypted files. In an unprotected book, these may be fonts."""
    if "META-INF/encryption.xml" not in archive.names:
        return set()
    references = _named(parse_xml(archive.read("META-INF/encryption.xml")), "CipherReference")
    return {archive.name_of(each.get("URI") or "") for each in references}


def _contents(archive: Archive, package: str, items: Iterable[Any]) -> dict[str, Titles]:
    """Return the titles in the table of contents by document: those of an EPUB 3, else those of an EPUB 2."""
    newer: dict[str, Titles] = {}
    older: dict[str, Titles] = {}
    for item in items:
        place = _target(archive, package, item.get("href") or "")
        with suppress(Unreadable):
            if "nav" in (item.get("properties") or "").split():
                _add_titles(newer, archive, place, _links(parse_html(archive.read(place))))
            elif item.get("media-type") == "application/x-dtbncx+xml" or place.endswith(".ncx"):
                _add_titles(older, archive, place, _points(parse_xml(archive.read(place))))
    return newer or older


def _add_titles(titles: dict[str, Titles], archive: Archive, place: str, entries: Iterator[Entry]) -> None:
    """Add the entries of the first levels, and the first of each document."""
    levels: dict[str, int] = {}
    for level, href, title in entries:
        if not title:
            continue
        document = _target(archive, place, href)
        if level <= max(_LEVELS, levels.setdefault(document, level)):
            titles.setdefault(document, {}).setdefault(unquote(urldefrag(href)[1]), title)


def _links(root: Any) -> Iterator[Entry]:
    """Yield the table of contents of an EPUB 3. A list of pages or landmarks may be in the same document."""
    lists = list(root.iter("nav"))
    named = [each for each in lists if "toc" in (each.get("epub:type") or "").split() or each.get("role") == "doc-toc"]
    for link in (named or lists or [root])[0].iter("a"):
        level = sum(1 for _ in link.iterancestors("ol", "ul"))
        link.tail = None
        yield level, link.get("href") or "", " ".join(block.text for block in read_blocks(link))


def _points(root: Any) -> Iterator[Entry]:
    """Yield the table of contents of an EPUB 2."""
    for point in _named(root, "navPoint"):
        source = next((each.get("src") or "" for each in _named(point, "content")), "")
        yield 1 + sum(1 for _ in point.iterancestors("{*}navPoint")), source, _first(point, "text")


def _read_document(document: Any, titles: Titles, hidden: HiddenClasses, book: BookText) -> bool:
    """Add the blocks of a document, without those of hidden classes, and return whether there are any.

    Its titles in the contents begin chapters; without any, its headings do.
    """
    blocks = read_blocks(document, hidden)
    known = {id for block in blocks for id in block.ids}
    starts: Titles = {}
    for id, title in titles.items():
        starts.setdefault(id if id in known else "", title)
    for place, block in enumerate(blocks):
        ids = block.ids if place else ["", *block.ids]
        chapter = next((starts[id] for id in ids if id in starts), None)
        if not starts and block.tag in _HEADINGS:
            chapter = block.text
        book.add(block.text, chapter)
    return bool(blocks)
