"""EPUB 2 and 3 → text with chapters: the documents of the spine in order, with the titles of the table of contents."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import lxml.html
from lxml import etree

from studio.books.pages import Archive, BookText, Unreadable

_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6"
    " header hr li main ol p pre section table tbody td tfoot th thead tr ul".split()
)
_LEFT_OUT = frozenset("script style head nav svg math audio video object iframe rt rp noscript template".split())
_HEADINGS = frozenset({"h1", "h2"})
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*encoding=["']([A-Za-z0-9_.\-]{1,40})["']""")
_PARSER: Any = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


def read_epub(path: Path) -> BookText:
    """Read an EPUB. Raises Unreadable."""
    archive = Archive(path)
    package = _package_path(archive)
    root = _xml(archive.read(package))
    book = BookText(title=_first(root, "title"))
    items = {item.get("id"): item for item in _named(root, "item")}
    spine = [items[ref.get("idref")] for ref in _named(root, "itemref") if ref.get("idref") in items]
    places = [_target(package, item.get("href") or "") for item in spine]
    places = [place for place in places if place in archive.names]
    if not places:
        raise Unreadable("books.damaged")
    if _encrypted(archive) & set(places):
        raise Unreadable("books.encrypted")
    titles = _contents(archive, package, items)
    for place in dict.fromkeys(places):
        _read_document(archive.read(place), titles.get(place), book)
    return book


def _package_path(archive: Archive) -> str:
    for file in _named(_xml(archive.read("META-INF/container.xml")), "rootfile"):
        path = str(file.get("full-path") or "")
        if path in archive.names:
            return path
    raise Unreadable("books.damaged")


def _xml(data: bytes) -> Any:
    try:
        root = etree.fromstring(data, _PARSER)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable("books.damaged") from error
    if root is None:
        raise Unreadable("books.damaged")
    return root


def _named(root: Any, name: str) -> list[Any]:
    """Return the elements with this name, in any namespace."""
    return list(root.iter(f"{{*}}{name}"))


def _first(root: Any, name: str) -> str:
    return next((" ".join("".join(each.itertext()).split()) for each in _named(root, name)), "")


def _target(base: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(urldefrag(href)[0])))


def _encrypted(archive: Archive) -> set[str]:
    """Return the encrypted files. In an unprotected book, these may be fonts."""
    if "META-INF/encryption.xml" not in archive.names:
        return set()
    references = _named(_xml(archive.read("META-INF/encryption.xml")), "CipherReference")
    return {posixpath.normpath(unquote(each.get("URI") or "")) for each in references}


def _contents(archive: Archive, package: str, items: dict[Any, Any]) -> dict[str, str]:
    """Return the first title of each document in the table of contents."""
    titles: dict[str, str] = {}
    for item in items.values():
        place = _target(package, item.get("href") or "")
        if place not in archive.names:
            continue
        if "nav" in (item.get("properties") or "").split():
            for link in _html(archive.read(place)).iter("a"):
                text = " ".join(link.text_content().split())
                titles.setdefault(_target(place, link.get("href") or ""), text)
        elif item.get("media-type") == "application/x-dtbncx+xml":
            for point in _named(_xml(archive.read(place)), "navPoint"):
                source = next((each.get("src") or "" for each in _named(point, "content")), "")
                titles.setdefault(_target(place, source), _first(point, "text"))
    return {place: title for place, title in titles.items() if title}


def _html(data: bytes) -> Any:
    found = _ENCODING.match(data[:200])
    try:
        text = data.decode(found[1].decode() if found else "utf-8-sig", "replace")
    except LookupError:
        text = data.decode("utf-8", "replace")
    text = _DECLARATION.sub("", text.lstrip("\ufeff")).replace("\0", "")
    try:
        return lxml.html.document_fromstring(text or "<p></p>")
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable("books.damaged") from error


def _read_document(data: bytes, title: str | None, book: BookText) -> None:
    """Add the blocks of a document. Its title in the contents begins a chapter; without one, each heading does."""
    blocks = _blocks(_html(data))
    first = True
    for tag, text in blocks:
        chapter = None
        if first and text.strip():
            chapter = title or (text if tag in _HEADINGS else None)
            first = False
        elif tag in _HEADINGS and title is None:
            chapter = text
        book.add(text, chapter)


def _blocks(root: Any) -> list[tuple[str, str]]:
    """Return the tag and text of each block. It does not recurse, since documents may be nested arbitrarily deep."""
    done: list[tuple[str, str]] = []
    parts: list[str] = []
    block = "body"

    def close(following: str) -> None:
        nonlocal block
        if text := " ".join("".join(parts).split()):
            done.append((block, text))
        parts.clear()
        block = following

    skipped = 0
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event in ("comment", "pi"):
            if not skipped and event == "comment":
                parts.append(element.tail or "")
            continue
        tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        left_out = tag in _LEFT_OUT or "noteref" in (element.get("epub:type") or "")
        if event == "start":
            skipped += left_out
            if skipped:
                continue
            if tag in _BLOCKS:
                close(tag if tag not in ("div", "section", "body") else "p")
            parts.append(" " if tag == "br" else "")
            parts.append(element.text or "")
        else:
            if not skipped and tag in _BLOCKS:
                close("p")
            skipped -= left_out
            if not skipped:
                parts.append(element.tail or "")
    close("p")
    return done
