"""Decoding of uploaded bytes into text, and errors for other files."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidText
from studio.script import decode_text, parse_file
from studio.script.formats.decode import MAX_CHARACTERS

GERMAN = "Grüße aus Köln – „schön“, sagte sie. Das kostet 5 €."
HEBREW = "שלום, עולם. مرحبا بالعالم. 👩‍🚀 says hello."


@pytest.mark.parametrize("text", [GERMAN, HEBREW, "Plain."])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_unicode_encodings_with_byte_order_marks(text: str, mark: bytes, encoding: str) -> None:
    assert decode_text(mark + text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_byte_order_mark(encoding: str) -> None:
    assert decode_text(GERMAN.encode(encoding)) == GERMAN


def test_windows_1252() -> None:
    assert decode_text(GERMAN.encode("windows-1252")) == GERMAN


def test_a_few_control_characters_are_removed() -> None:
    assert decode_text(b"a\x08b\x1f " + GERMAN.encode() * 50) == "ab " + GERMAN * 50


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b" \r\n\t", "empty"),
        (codecs.BOM_UTF8, "empty"),
        (b"%PDF-1.7 and more", "PDF"),
        (b"PK\x03\x04 document", "Word"),
        (b"{\\rtf1 Hello}", "RTF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Word"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01", "plain text"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00", "plain text"),
        (b"\x89PNG\r\n\x1a\n", "plain text"),
        (b"text\x07with a bell", "plain text"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8", "plain text"),
        ("Привет, мир".encode("windows-1251"), "encoding"),
        ("これは日本語の文章です。".encode("euc-jp"), "encoding"),
        (b"a" * (MAX_CHARACTERS + 1), "too long"),
        (b"a" * (5 * MAX_CHARACTERS), "too long"),
    ],
)
def test_invalid_files_are_rejected_with_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(InvalidText, match=says) as refused:
        decode_text(data)
    assert str(refused.value).endswith(".")


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300), st.sampled_from(["a.txt", "a.md", "a.srt", "a.vtt", "", "a.docx"]))
def test_arbitrary_bytes_parse_or_raise_an_error(data: bytes, name: str) -> None:
    try:
        script = parse_file(data, name)
    except InvalidText as error:
        assert str(error).endswith(".")  # noqa: PT017
    else:
        assert all(card.text.strip() for card in script.cards)
