"""Tables as scripts: a row becomes a card with its speaker."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidText
from studio.script import parse, parse_file
from studio.script.formats.table import is_table, read_table

_CELLS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=20) | st.sampled_from(
    ['a "b", c;', "one\ntwo", "=1", "a\tb"]
)


def read(text: str, name: str = "a.csv") -> list[tuple[str | None, str]]:
    return [(card.speaker, card.text) for card in parse(text, name).cards]


@pytest.mark.parametrize(
    "text",
    [
        'id,Character,Line,file\n1,Guard,"Halt, who\n goes there?",g1\n\n2,,Nobody.,n\n3,GUARD,  ,g2\n4,guard,Pass.\n',
        "sep=;\r\nText;SPEAKER;name\r\nHalt, who goes there?;Guard;g1\r\nNobody.;;n\r\nPass.;guard;g2\r\n",
        "\ufeffvoice\ttext\nGuard\tHalt, who goes there?\n\tNobody.\t\t\t\t\t\t\nguard\tPass.\n",
    ],
)
def test_rows_are_cards_with_their_speakers(text: str) -> None:
    assert read(text) == [("Guard", "Halt, who goes there?"), (None, "Nobody."), ("Guard", "Pass.")]
    assert read(text, "a.tsv") == read(text)
    assert [(card.text, card.speaker) for card in parse_file(text.encode("utf-16"), "b.CSV").cards] == [
        (said, speaker) for speaker, said in read(text)
    ]


def test_row_is_one_card_whose_pause_is_that_of_paragraphs() -> None:
    (card,) = parse("text\nOne. Two. Three. Four. Five.\n", "a.csv").cards
    assert (card.pause, card.ends_paragraph) == (0.6, True)
    (card,) = parse("text\nOne. [pause:2]\n", "a.csv").cards
    assert (card.text, card.pause, card.ends_paragraph) == ("One.", 2.0, False)


def test_ssml_in_a_cell_is_read() -> None:
    text = 'text\n"<speak>One <break time=""1s""/> &amp; two.</speak>"\n'
    assert read(text) == [(None, "One [pause:1s] & two.")]


def test_pasted_rows_of_a_spreadsheet_are_a_table() -> None:
    assert read("Speaker\tText\nGuard\tHalt!\nQueen\tNo.\n", "") == [("Guard", "Halt!"), ("Queen", "No.")]
    for text in ("Speaker: Text\nGuard: Halt!", "text\nGuard\tHalt!", "Text, speaker\nGuard, halt!"):
        assert not is_table(text)


@pytest.mark.parametrize("text", ["Guard,Halt!\nQueen,No.\n", "id,speaker\n1,Guard\n", f'text\n"{"a" * 200_000}"\n'])
def test_table_without_a_column_of_texts_is_refused(text: str) -> None:
    with pytest.raises(InvalidText, match="first row"):
        parse(text, "a.csv")


def test_table_without_texts_is_refused() -> None:
    with pytest.raises(InvalidText, match="no words"):
        parse("text,speaker\n,Guard\n", "a.csv")


@given(st.lists(st.tuples(_CELLS, _CELLS, _CELLS), max_size=8), st.sampled_from(",;\t"))
def test_written_rows_are_read(rows: list[tuple[str, str, str]], delimiter: str) -> None:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows([("name", "text", "speaker"), *rows])
    paragraphs = read_table(file.getvalue()).paragraphs
    said = [(" ".join(text.split()), " ".join(speaker.split())) for _, text, speaker in rows]
    assert [(each.text, each.speaker) for each in paragraphs] == [each for each in said if each[0]]


@given(st.text() | st.text('",;\t\r\n text').map("text,speaker\n{}".format))
def test_any_table_is_read_or_refused(text: str) -> None:
    for name in ("a.csv", "a.tsv", ""):
        try:
            assert parse(text, name).cards
        except InvalidText:
            continue
