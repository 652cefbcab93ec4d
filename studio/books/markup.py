"""Documents of EPUBs, XML or XHTML in any encoding, → trees. Damaged ones are read as far as possible."""

from __future__ import annotations

import codecs
import re
from html.entities import html5
from typing import Any

import lxml.html
from lxml import etree

from studio.books.book_text import Unreadable

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*encoding=["']([A-Za-z0-9_.\-]{1,40})["']""")
_CHARSET = re.compile(rb"""<meta[^<>]{0,200}?charset\s*=\s*["']?([A-Za-z0-9_.\-]{1,40})""", re.IGNORECASE)
_EXTENDED = {  # by names of encodings: those that browsers use for them
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_ENTITY = re.compile(rb"&(?!\0|#|(?:amp|lt|gt|quot|apos);)([A-Za-z][A-Za-z0-9]{0,40};)?")
_PARSER: Any = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


def parse_xml(data: bytes) -> Any:
    """Return the root of an XML document, whose entities may be those of HTML. Raises Unreadable."""
    try:
        root = etree.fromstring(_ENTITY.sub(_reference, data), _PARSER)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable("books.damaged") from error
    if root is None:
        raise Unreadable("books.damaged")
    return root


def _reference(found: re.Match[bytes]) -> bytes:
    """Return an entity of HTML, which XML does not know, as references to characters, and another "&" as one."""
    characters = html5.get((found[1] or b"").decode())
    return characters.encode("ascii", "xmlcharrefreplace") if characters else b"&amp;" + (found[1] or b"")


def parse_html(data: bytes) -> Any:
    """Return the root of an XHTML document, read as HTML. Raises Unreadable."""
    try:
        text = data.decode(_encoding(data), "replace")
    except LookupError:
        text = data.decode("utf-8", "replace")
    text = _DECLARATION.sub("", text.lstrip("\ufeff")).replace("\0", "")
    try:
        return lxml.html.document_fromstring(text or "<p></p>")
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable("books.damaged") from error


def _encoding(data: bytes) -> str:
    """Return the encoding of a document. That of a `meta` element counts only for text that is not UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    found = _ENCODING.match(data[:200]) or (None if _is_utf8(data) else _CHARSET.search(data[:2000]))
    name = codecs.lookup(found[1].decode()).name if found else "utf-8"
    return "utf-8-sig" if name.startswith(("utf-16", "utf-32", "utf-8")) else _EXTENDED.get(name, name)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
