"""Corrupted files are parsed into a valid script or raise `InvalidText`; HTML in them stays text."""

import codecs

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import Segmentation, clean_text
from studio.script import Script, cues, parse, parse_file, to_srt, to_vtt
from tests.studio.script.formats.test_subtitles import SRT, VTT, Spoken
from tests.studio.script.test_cards import PAGE
from tests.support.long_texts import LEXICON

NAMES = ("a.srt", "a.vtt", "a.md", "a.txt", "")
PIECES = (
    *(
        b"\0",
        b"\xff",
        b"\xfe\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\r",
        b"\n\n",
        b"-->",
        b"WEBVTT\n",
        b"<v ",
        b"&#",
        b"{\\",
    ),
    *(codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE, b"9" * 400, b"9" * 5000, b"00:00:00.000 --> "),
    *(b"&#1;", b"&#xd800;", b"&#" + b"9" * 5000 + b";", b"&#xe000;", b"<!--", b"```\n", b"[a]: b\n", b"\xe2\x80\xa8"),
)
FORBIDDEN = regex.compile(r"[\p{Cs}\p{Co}\p{Noncharacter_Code_Point}\ufeff]|[^\P{Cc}\t]")

changes = st.tuples(
    st.sampled_from(["insert", "replace", "cut", "double"]),
    st.floats(0, 1),
    st.sampled_from(PIECES) | st.binary(max_size=6),
)
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1251", "shift_jis"])


def damaged(text: str, encoding: str, wanted: list[tuple[str, float, bytes]]) -> bytes:
    data = text.encode(encoding, "replace")
    for change, place, piece in wanted:
        at = int(place * len(data))
        if change == "cut":
            data = data[:at]
        elif change == "double":
            data += data[at:]
        else:
            data = data[:at] + piece + data[at + (len(piece) if change == "replace" else 0) :]
    return data


def check(script: Script) -> None:
    """Check that the script can be stored, spoken and subtitled."""
    assert script.cards
    for card in script.cards:
        assert card.text.strip()
        assert 0 <= card.pause <= 60
        assert not FORBIDDEN.search(card.text + (card.speaker or ""))
        assert Segmentation().plan(card.text)
    shown = cues(Spoken(card.text, card.pause, 1.0, card.speaker) for card in script.cards)
    assert parse_file(to_srt(shown).encode(), "a.srt").cards
    assert parse_file(to_vtt(shown).encode(), "a.vtt").cards


@settings(deadline=None, max_examples=80)
@given(st.sampled_from([SRT, VTT, PAGE]), encodings, st.lists(changes, min_size=1, max_size=6), st.sampled_from(NAMES))
def test_corrupted_files_parse_or_raise_an_error(
    text: str, encoding: str, wanted: list[tuple[str, float, bytes]], name: str
) -> None:
    try:
        script = parse_file(damaged(text, encoding, wanted), name)
    except InvalidText as error:
        assert str(error).endswith(".")  # noqa: PT017
    else:
        check(script)


@pytest.mark.parametrize(
    "data",
    [
        b"1" * 400 + b":00:00,000 --> 00:00:01,000\nHello.\n\n00:00:02,000 --> 00:00:03,000\nBye.",
        b"9" * 5000 + b":00:00,000 --> 00:00:01,000\nHello.\n\n00:00:02,000 --> 00:00:03,000\nBye.",
        b"00:00:00,000 --> 00:00:01,000\nHello.\n" + b"9" * 5000 + b"\n00:00:00,000 --> 00:00:01,000\nBye.",
        b"WEBVTT\n\n00:00.000 --> 00:01.000\nHello &#" + b"9" * 5000 + b"; Bye.",
        b"WEBVTT\n\n00:00.000 --> 00:01.000\n<v &#" + b"9" * 5000 + b";>Hello. Bye.",
        b"Hello &#" + b"9" * 5000 + b"; <b>Bye.</b>\n\n<div>&#" + b"9" * 5000 + b";</div>",
    ],
)
def test_endless_numbers_are_neither_times_nor_characters(data: bytes) -> None:
    for name in NAMES:
        try:
            check(parse_file(data, name))
        except InvalidText:
            assert name in ("a.srt", "a.vtt")


odd_texts = st.text(st.characters(codec=None), max_size=80) | st.lists(
    st.sampled_from(["\ud800", "\udc00", "\0", "\ufeff", "\ue000", "[a", "<|", "&#1;", "a", " ", "\n", "\u0301" * 40]),
    max_size=40,
).map("".join)


@settings(deadline=None, max_examples=50)
@given(odd_texts, st.sampled_from(NAMES))
@example("&#1;a &#xe000; &#xd800;b", "a.md")
@example("\ud800" * 3, "a.txt")
def test_odd_characters_parse_or_raise_an_error(text: str, name: str) -> None:
    LEXICON.unpronounceable(text)
    LEXICON.phones(text)
    for read in (clean_text, Segmentation().plan, lambda text: check(parse(text, name))):
        try:
            read(text)
        except InvalidText as error:
            assert str(error).endswith(".")  # noqa: PT017


def test_panic_of_the_parser_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):  # raised by the Rust library
        pass

    class Failing:
        def events_with_range(self, text: str) -> None:
            raise PanicException("begin <= end")

    monkeypatch.setattr("studio.script.formats.markdown_blocks._PARSER", Failing())
    with pytest.raises(InvalidText, match="cannot be read"):
        parse("# Title", "a.md")


HTML = """# Title <script>alert(1)</script>

<script>
alert("never read")
</script>

<style>p { color: red }</style>

<!DOCTYPE html>

<div onclick="alert(2)">Read <img src=x onerror="alert(3)"> aloud &lt;b&gt; &amp;amp;</div>

[click](javascript:alert(4)) <sigh> ![alt](data:text/html,5 "title") <a href='javascript:6'>here</a>
"""


def test_html_and_links_leave_only_their_words() -> None:
    script = parse(HTML, "a.md")
    assert [card.text for card in script.cards] == [
        "Title <script>alert(1)</script>",
        "Read aloud <b> &amp;",
        "click <sigh> alt here",
    ]
    for omitted in ("never read", "color: red", "DOCTYPE", "alert(2)", "alert(3)", "alert(4)", "data:text/html,5"):
        assert any(omitted in text for text in script.omitted), omitted


def test_markdown_keeps_indented_numbered_and_undefined_text() -> None:
    text = (
        "    An *indented* paragraph.\n\n1.\n2. - Nested\n\n"
        "> [quoted]: http://a.b\n> Words[^1] [here]\n\n[^1]: http://c.d\n[here]: x\n"
    )
    script = parse(text, "a.md")
    assert " ".join(card.text for card in script.cards) == "An indented paragraph. 1. 2. Nested Words here"
    for omitted in ("http://a.b", "http://c.d", "[here]: x", "[^1]"):
        assert any(omitted in text for text in script.omitted), omitted


def test_markers_beyond_the_deepest_level_are_text() -> None:
    script = parse("> " * 9 + "Quoted\n\n" + "1. " * 10 + "Numbered", "a.md")
    assert script.cards[0].text == "Quoted"
    assert " ".join(card.text for card in script.cards).count("1.") == 10
