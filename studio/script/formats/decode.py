"""Bytes of an uploaded text file → text. A file is refused if its encoding cannot be detected with confidence."""

import codecs

import regex

from engine.errors import InvalidText

MAX_CHARACTERS = 500_000  # about nine hours of speech
MAX_BYTES = 4 * MAX_CHARACTERS + 4

# UTF-32 before UTF-16, whose little-endian mark begins UTF-32's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Documents that are often uploaded as text files, by their first bytes.
_DOCUMENTS = (
    (b"%PDF", "PDF"),
    (b"PK\x03\x04", "Word, OpenDocument, EPUB"),
    (b"\xd0\xcf\x11\xe0", "Word"),
    (b"{\\rtf", "RTF"),
)

_CONTROLS = regex.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROLS = 0.002  # of the characters: scanned and old texts have a few, other files many
_LETTERS = regex.compile(r"\p{L}")
_FOREIGN = regex.compile(r"[^\x00-\x7f]")
_MAX_FOREIGN = 0.4  # of the letters; no Western language has nearly as many accents


def decode_text(data: bytes) -> str:
    """Decode a text file: UTF-8, UTF-16 or UTF-32 with a byte order mark, UTF-16 without one, else Windows-1252.

    Raises InvalidText for a file that is empty, not text, of another encoding, or over 500,000 characters.
    """
    _refuse_documents(data)
    if len(data) > MAX_BYTES:
        raise InvalidText("cards.long_text", most=MAX_CHARACTERS)
    return checked_text(_decoded(data))


def checked_text(text: str) -> str:
    """Return the text. Raises InvalidText if it is empty or too long for a script."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidText("cards.long_text", most=MAX_CHARACTERS)
    if not text.strip("\ufeff \t\r\n"):
        raise InvalidText("cards.no_text")
    return text


def _refuse_documents(data: bytes) -> None:
    for start, kind in _DOCUMENTS:
        if data.startswith(start):
            raise InvalidText("cards.document", kind=kind)


def _decoded(data: bytes) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _sane(_strict(data[len(mark) :], encoding))
    if b"\0" in data:
        return _sane(_strict(data, _unmarked_utf16(data)))
    try:
        return _sane(data.decode("utf-8"))
    except UnicodeDecodeError:
        return _western(_sane(_strict(data, "windows-1252")))


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidText("cards.not_text") from error


def _unmarked_utf16(data: bytes) -> str:
    """Detect the byte order of UTF-16 by the position of the zero bytes, which spaces and line ends have."""
    return "utf-16-le" if data[1::2].count(0) > data[::2].count(0) else "utf-16-be"


def _sane(text: str) -> str:
    """Remove a few control characters. Raises InvalidText for more of them."""
    sane, removed = _CONTROLS.subn("", text)
    if removed > _MAX_CONTROLS * len(text):
        raise InvalidText("cards.not_text")
    return sane


def _western(text: str) -> str:
    """Refuse text with too many accented letters: Russian or Japanese bytes also decode as Windows-1252."""
    letters = "".join(_LETTERS.findall(text))
    if len(_FOREIGN.findall(letters)) > _MAX_FOREIGN * len(letters):
        raise InvalidText("cards.encoding")
    return text
