"""EPUB 2 and 3 → text with chapters: the documents of the spine in order, with the titles of the table of contents."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag

from lxml import etree

from studio.books.book_text import ENDS, Archive, BookText, Unreadable, raised
from studio.books.list_numbers import ListNumbers
from studio.books.markup import parse_html, parse_xml

_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6"
    " header hr li main ol p pre section table tbody td tfoot th thead tr ul".split()
)
_LEFT_OUT = frozenset("script style head nav svg audio video object iframe rt rp noscript template annotation".split())
_ONE_LINE = frozenset("mrow mi mn mo mtext mstyle mspace semantics annotation".split())  # parts of a formula
# Page numbers, marks of notes, and links back from notes: values of epub:type and roles, without hyphens. As classes,
# where they may also style other text, they only count if the text is `_MARK`. The last rows are of InDesign,
# LibreOffice and Word.
_MARKS = frozenset(
    "noteref pagebreak backlink docnoteref docpagebreak docbacklink pagenum pageno pagenumber fnanchor"
    " footnoteref footnotereference _idfootnotelink _idfootnoteanchor _idendnotelink _idendnoteanchor"
    " sdfootnoteanc sdfootnotesym sdendnoteanc sdendnotesym msofootnotereference msoendnotereference".split()
)
_NOTES = frozenset("footnote endnote rearnote docfootnote docendnote".split())  # which readers show on demand
_MARK = re.compile(
    r"[\[({]?(?:p(?:age|g|p)?\.?\s?)?(?:\d{1,4}|[ivxlcdm]{1,8}|[a-z]|[*†‡§]{1,3})?[\])}]?", re.IGNORECASE
)  # [Pg 5], xii, [A]
_NOTE = re.compile(r"[\[(]?(?:\d{1,3}|[*†‡§]{1,3})[\])]?")
_NOTE_IN_BRACKETS = re.compile(rf"(?=\[){_NOTE.pattern}")
_MARK_PARTS = 20  # elements
_HIDDEN = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_BREAK = "***"  # the text of a rule between two scenes
_FIRST_IDEOGRAPH = "\u3400"
_ALL_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
_HEADINGS = frozenset({"h1", "h2"})
_NO_DOCUMENTS = ("image/", "audio/", "video/", "application/pdf")  # which a spine should not have
_ROLE = "{http://www.idpf.org/2007/opf}role"
_LEVELS = 2  # of the table of contents, that begin chapters


Titles = dict[str, str]
"""The chapters of a document: titles by the id of the element that they begin with; "" for the document's start."""

Entry = tuple[int, str, str]
"""An entry of a table of contents: its level, from 1 on, its address, and its title."""


class _Block(NamedTuple):
    """A block of text. ids: of its elements, and of those without text before it."""

    tag: str
    text: str
    ids: list[str]


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
    for place in places:
        begun = titles.get(place) or waiting
        waiting = {} if _read_document(archive.read(place), begun, book) else begun
    book.cover = _cover(archive, package, root)
    return book


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
    roles = {each.get("refines"): _text(each) for each in metas if each.get("property") == "role"}  # EPUB 3
    creators = [
        (_text(each), each.get(_ROLE) or roles.get(f"#{each.get('id')}", "")) for each in _named(root, "creator")
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
        yield level, link.get("href") or "", " ".join(block.text for block in _blocks(link))


def _points(root: Any) -> Iterator[Entry]:
    """Yield the table of contents of an EPUB 2."""
    for point in _named(root, "navPoint"):
        source = next((each.get("src") or "" for each in _named(point, "content")), "")
        yield 1 + sum(1 for _ in point.iterancestors("{*}navPoint")), source, _first(point, "text")


def _read_document(data: bytes, titles: Titles, book: BookText) -> bool:
    """Add the blocks of a document, and return whether there are any.

    Its titles in the contents begin chapters; without any, its headings do.
    """
    blocks = _blocks(parse_html(data))
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


def _is_left_out(element: Any, tag: str) -> bool:
    """Whether an element's text is not read: not shown, of another kind, a page number, or a note or its mark."""
    if tag in _LEFT_OUT or _is_hidden(element):
        return True
    if tag == "math":  # fractions, powers and the like are not a line of text
        return any(_name(part) not in _ONE_LINE for part in element.iterdescendants())
    kinds = _values(element, "epub:type") | _values(element, "role")
    if not kinds.isdisjoint(_MARKS if tag != "aside" else _MARKS | _NOTES):
        return True
    if not _values(element, "class").isdisjoint(_MARKS) and tag not in _ALL_HEADINGS:
        return _reads(element, _MARK)
    if tag == "a" and "#" in (element.get("href") or ""):
        return _reads(element, _NOTE_IN_BRACKETS)
    if tag != "sup" or not _reads(element, _NOTE):
        return False
    return any(link.get("href") for link in chain(element.iterdescendants("a"), element.iterancestors("a")))


def _reads(element: Any, mark: re.Pattern[str]) -> bool:
    """Whether an element's text is a mark. With more parts than a mark has, it is not read: many may be nested."""
    is_large = next(islice(element.iter(), _MARK_PARTS, None), None) is not None
    return not is_large and mark.fullmatch(_text(element)) is not None


def _name(element: Any) -> str:
    """Return the name of an element without a prefix; "" for comments and the like."""
    return element.tag.rpartition("}")[2].rpartition(":")[2] if isinstance(element.tag, str) else ""


def _is_hidden(element: Any) -> bool:
    """Whether an element is hidden, or, without a label in its place, is not for speech."""
    if element.get("hidden") is not None or _HIDDEN.search(element.get("style") or ""):
        return True
    parent = element.getparent()
    return element.get("aria-hidden") == "true" and (parent is None or parent.get("aria-label") is None)


def _values(element: Any, attribute: str) -> set[str]:
    return set((element.get(attribute) or "").lower().replace("-", "").split())


def _text(element: Any) -> str:
    return "".join(element.itertext()).strip()


def _letter(picture: Any) -> str:
    """Return the letter that a picture shows: an initial, or a character that is missing in fonts; "" for others."""
    letter, parent = (picture.get("alt") or "").strip(), picture.getparent()
    following = parent.tail if parent.tag == "span" and not picture.tail else picture.tail
    is_letter = len(letter) == 1 and letter.isalpha()
    return letter if is_letter and (letter >= _FIRST_IDEOGRAPH or (following or "")[:1].isalpha()) else ""


def _raised(element: Any) -> str:
    """Return the text of a raised part: an exponent, or in a fraction, 1<sup>1</sup>/<sub>2</sub>, a number."""
    text = element.text or ""
    return f" {text}" if text.isdigit() and (element.tail or "").startswith(("/", "\u2044")) else raised(text)


def _ends_paragraph(line: str, end: Any) -> bool:
    """Whether a paragraph ends at the end of a line: one without text, or with whole sentences in no paragraph."""
    return not line or (line.endswith(ENDS) and _name(end.getparent()) in ("body", "div", "section"))


def _blocks(root: Any) -> list[_Block]:
    """Return the blocks. It does not recurse, since documents may be nested arbitrarily deep."""
    done: list[_Block] = []
    parts: list[str] = []
    ids: list[str] = []
    numbers = ListNumbers()
    block = "body"
    line = 0  # where the parts of the last line begin

    def close(following: str) -> None:
        nonlocal block, line
        if text := " ".join("".join(parts).split()):
            done.append(_Block(block, numbers.numbered(text), ids.copy()))
            ids.clear()
        parts.clear()
        block, line = following, 0

    skipped = 0
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event in ("comment", "pi"):
            if not skipped and event == "comment":
                parts.append(element.tail or "")
            continue
        tag = _name(element)
        left_out = _is_left_out(element, tag)
        if event == "start":
            if tag in _BLOCKS and not skipped and not left_out:
                close(tag if tag not in ("div", "section", "body") else "p")
                if tag == "hr":
                    done.append(_Block(tag, _BREAK, []))
            numbers.start(tag, element)
            ids += filter(None, [element.get("id"), element.get("name") if tag == "a" else None])
            skipped += left_out
            if skipped:
                continue
            if tag == "br" and block not in _ALL_HEADINGS and _ends_paragraph("".join(parts[line:]).strip(), element):
                close(block)
            elif tag == "br":
                parts.append(" ")
                line = len(parts)
            parts.append(_letter(element) if tag == "img" else "")
            parts.append(_raised(element) if tag == "sup" else element.text or "")
        else:
            if not skipped and tag in _BLOCKS:
                close("p")
            numbers.end(tag)
            skipped -= left_out
            if not skipped:
                parts.append(element.tail or "")
    close("p")
    return done
