"""Marks of cards in a text, and round trips of scripts through Markdown."""

import subprocess
import sys

import pytest

from engine.errors import InvalidText
from engine.text import pauses
from storage.scripts.limits import MAX_CARDS, MAX_PAUSE, MAX_SPEAKER
from studio.script import Card, parse, to_markdown
from studio.script.formats.document import PARAGRAPH_PAUSE, SECTION_PAUSE, SENTENCE_PAUSE
from tests.paths import ROOT


def test_speed_mark_applies_to_its_paragraph() -> None:
    slow, rest, quick, plain = parse("[speed:0.8] One. Two. Three. Four.\n\n[Speed: 1,5x] Five.\n\nSix.").cards
    assert (slow.text, slow.speed, slow.pause, slow.ends_paragraph) == ("One. Two. Three.", 0.8, SENTENCE_PAUSE, False)
    assert (rest.text, rest.speed, rest.pause, rest.ends_paragraph) == ("Four.", 0.8, PARAGRAPH_PAUSE, True)
    assert (quick.text, quick.speed) == ("Five.", 1.5)
    assert plain.speed == 1.0


def test_final_pause_mark_sets_the_pause_of_the_card() -> None:
    first, second, third = parse("One. [pause:2.5]\n\nTwo [pause:1] and a half.\n\n[pause:3]Three.").cards
    assert (first.text, first.pause, first.ends_paragraph) == ("One.", 2.5, False)
    assert (second.text, second.pause) == ("Two [pause:1] and a half.", PARAGRAPH_PAUSE)
    assert third.text == "[pause:3]Three."


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_marks_on_lines_of_their_own_belong_to_their_neighbours(name: str) -> None:
    """Chapters and speeds to the next paragraph, pauses to the one before."""
    text = (
        "[pause:1]\n\n[chapter:One]\n\nHello.\n\n[pause:2.5]\n\n[chapter:Two] [speed:1.25]\n\nAnna: Yes.\n\nAnna: No."
    )
    assert [(card.text, card.speaker, card.pause, card.speed, card.chapter) for card in parse(text, name).cards] == [
        ("[pause:1] Hello.", None, 2.5, 1.0, "One"),
        ("Yes.", "Anna", PARAGRAPH_PAUSE, 1.25, "Two"),
        ("No.", "Anna", PARAGRAPH_PAUSE, 1.0, None),
    ]
    assert [card.pause for card in parse("One.\n\n[pause:40]\n\n[pause:50]\n\n[chapter:Last]", name).cards] == [50]


@pytest.mark.parametrize("wrong", ["[speed:0.4] One.", "[speed:2.5] One.", "One. [pause:61]"])
def test_out_of_range_marks_are_rejected(wrong: str) -> None:
    with pytest.raises(InvalidText):
        parse(wrong)


def test_headings_begin_chapters() -> None:
    script = parse("# One\n\nHello.\n\n## Two\n\nBye.\n\n### Part\n\n[chapter: The end] Good night.", "a.md")
    assert [(card.text, card.chapter) for card in script.cards] == [
        ("One", "One"), ("Hello.", None), ("Two", "Two"), ("Bye.", None), ("Part", None), ("Good night.", "The end"),
    ]  # fmt: skip


CARDS = (
    Card("The harbour", None, 0.8, chapter="The harbour"),
    Card("1. It costs 5*3 & <b>more</b> `x` _now_ [laugh] [see](here).", None, PARAGRAPH_PAUSE, True, 1.25),
    Card("Is it?", "Anna", 0.0, False, 0.5),
    Card("# No - it is ~not~ | yours\\.", "Ben", SECTION_PAUSE),
    Card("- A dash.", None, 12.5, chapter="Another title"),
    Card("Said once.", "Once Only", PARAGRAPH_PAUSE, True),
)


def test_markdown_round_trip() -> None:
    script = parse(to_markdown(CARDS), "a.md")
    assert script.cards == CARDS
    assert script.omitted == ()
    assert parse(to_markdown(CARDS)).cards == CARDS, "pasted Markdown is recognised"


def test_as_many_cards_as_a_script_can_have_are_read_back() -> None:
    cards = tuple(Card(f"Line {number}.", None, PARAGRAPH_PAUSE, True) for number in range(MAX_CARDS))
    assert parse(to_markdown(cards), "a.md").cards == cards


def test_longest_names_of_speakers_are_read_back() -> None:
    name = f"Anna {'Maria' * 7} {'Xaver' * 7}".ljust(MAX_SPEAKER, "a")
    assert len(name) == MAX_SPEAKER
    cards = (Card("Is it?", name, 0.0), Card("It is.", "Ben", PARAGRAPH_PAUSE, True))
    assert parse(to_markdown(cards), "a.md").cards == cards


@pytest.mark.parametrize(
    "name",
    [
        "anna", "3PO", "iPhone", "Old Man of the Sea", "Anna (whispering)", "Anna & Ben", "Mr. O/Neil", "Dr. A: B",
        "One; Two", "a\\;b\\", "*Star*", "- Dash", "1. First", "<b>", "# Hash", "Note:", "a_b_c", "`x`", "[Tag]",
        "http", "アンナ：", "> Quote", "=", "| Bar", "~~Gone~~", "![x](y)",
    ],
)  # fmt: skip
def test_speakers_with_any_name_are_read_back(name: str) -> None:
    cards = (
        Card("Is it?", name, 0.0),
        Card("Dr. A: B: it is.", "Dr. A", PARAGRAPH_PAUSE, True),
        Card("//Yes.", name, PARAGRAPH_PAUSE, True),
        Card("5 times.", name, PARAGRAPH_PAUSE, True, 0.5, "One"),
    )
    assert parse(to_markdown(cards), "a.md").cards == cards


def test_pauses_of_cards_and_of_texts_have_the_same_limit() -> None:
    assert MAX_PAUSE == pauses.MAX_PAUSE


def test_texts_are_read_without_torch_and_without_a_database() -> None:
    code = "import sys, studio.script, studio.books.extract; sys.exit(len({'torch', 'sqlalchemy'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
