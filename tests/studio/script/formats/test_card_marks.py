"""Marks of cards in a text, and round trips of scripts through Markdown."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import pauses
from engine.text.tags import is_speakable
from storage.scripts.limits import MAX_CARD_TEXT, MAX_CARDS, MAX_CHAPTER, MAX_PAUSE, MAX_SPEAKER
from studio.script import Card, Script, parse, to_markdown
from studio.script.formats import markdown_blocks
from studio.script.formats.document import HEADING_PAUSE, PARAGRAPH_PAUSE, SECTION_PAUSE, SENTENCE_PAUSE
from tests.paths import ROOT


def test_speed_mark_applies_to_its_paragraph() -> None:
    slow, rest, quick, plain = parse("[speed:0.8] One. Two. Three. Four.\n\n[Speed: 1,5x] Five.\n\nSix.").cards
    assert (slow.text, slow.speed, slow.pause, slow.ends_paragraph) == ("One. Two. Three.", 0.8, SENTENCE_PAUSE, False)
    assert (rest.text, rest.speed, rest.pause, rest.ends_paragraph) == ("Four.", 0.8, PARAGRAPH_PAUSE, True)
    assert (quick.text, quick.speed) == ("Five.", 1.5)
    assert plain.speed == 1.0


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_marks_before_a_speaker_are_those_of_the_speech(name: str) -> None:
    text = "[chapter:One] [speed:0.8] Anna: Hi. [pause:3]\n\n[speed:1.5] [Ben] Hi.\n\n[speed:2]\nAnna: So.\n\nBen: Bye."
    assert [(card.speaker, card.text, card.speed, card.chapter, card.pause) for card in parse(text, name).cards] == [
        ("Anna", "Hi.", 0.8, "One", 3.0),
        ("Ben", "Hi.", 1.5, None, PARAGRAPH_PAUSE),
        ("Anna", "So.", 2.0, None, PARAGRAPH_PAUSE),
        ("Ben", "Bye.", 1.0, None, PARAGRAPH_PAUSE),
    ]
    assert parse("[speed:0.5] Note: this is no dialogue.", name).speakers == ()
    quoted = parse("[speed:0.8] 太郎「おはよう。」\n彼は笑った。\n花子「おはよう。」", name)
    assert [(card.speaker, card.speed) for card in quoted.cards] == [("太郎", 0.8), (None, 1.0), ("花子", 1.0)]


def test_final_pause_mark_sets_the_pause_of_the_card() -> None:
    first, second, third = parse("One. [pause:2500ms]\n\nTwo [pause:1] and a half.\n\n[pause:3]Three.").cards
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


def test_as_many_cards_as_a_script_can_have_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With limits that are a hundredth of the real ones."""
    monkeypatch.setattr("studio.script.cards.MAX_CARDS", MAX_CARDS // 100)
    monkeypatch.setattr(markdown_blocks, "_MAX_BLOCKS", markdown_blocks._MAX_BLOCKS // 100)
    cards = tuple(Card(f"Line {number}.", None, PARAGRAPH_PAUSE, True) for number in range(MAX_CARDS // 100))
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
        Card(f"{name}:", None, 1.5),
        Card(f"{name}:", "Dr. A", 1.5, False, 1.25),
    )
    assert parse(to_markdown(cards), "a.md").cards == cards


PIECES = st.sampled_from(
    [
        *(
            "Hello.",
            "Hi,",
            "Warning:",
            "Anna:",
            "[Anna]",
            "A:",
            "B:",
            ":",
            "[laugh]",
            "[a]:",
            "[^1]",
            "[^1]:",
            "…",
            "x]",
        ),
        *("[pause:1]", "[pause:]", "[Pause: 2]", "[speed:2]", "[speed:]", "[chapter:C]", "[chapter:]", "[chapter:\\]]"),
        *("[a](b)", "![a](b)", "#", "##", "|", "| a |", "-|-", "***", "---", "===", "•••", "- - -", ">", "1.", "23)"),
        *(
            "&#65;",
            "&amp;",
            "<b>",
            "<!--",
            "\\",
            "\\\\]",
            "`",
            "```",
            "~~~",
            "*Two*",
            "_a_",
            "[",
            "]",
            "^",
            "speakers: Anna",
        ),
        "A sentence that goes on and on, and then some more. " * 9,
    ]
)
LINES = st.lists(PIECES, min_size=1, max_size=5).map(lambda pieces: " ".join(" ".join(pieces).split()))
TITLES = LINES.map(lambda title: title[:MAX_CHAPTER].strip())
PAUSES = st.sampled_from([0.0, 0.2, 0.6, 0.8, 1.2, 12.345678, 1e-05, MAX_PAUSE])


@st.composite
def saved_cards(draw: st.DrawFn, paragraph_pause: float) -> Card:
    text = draw(LINES.filter(is_speakable))
    ends = draw(st.booleans())
    chapter = draw(st.none() | TITLES | st.just(text[:MAX_CHAPTER].strip()))
    speaker = draw(st.sampled_from([None, None, "Anna", "A", "A: B", "[Tag]", "| Bar", "x" * MAX_SPEAKER]))
    pause = paragraph_pause if ends else draw(PAUSES)
    return Card(text, speaker, pause, ends, draw(st.sampled_from([1.0, 1.25, 0.5])), chapter)


@settings(deadline=None, max_examples=80)
@given(PAUSES.flatmap(lambda pause: st.tuples(st.just(pause), st.lists(saved_cards(pause), min_size=1, max_size=6))))
def test_any_script_is_read_back(saved: tuple[float, list[Card]]) -> None:
    paragraph_pause, cards = saved
    text = to_markdown(cards, paragraph_pause)
    for name in ("a.md", ""):
        assert parse(text, name) == Script(tuple(cards), (), paragraph_pause)


def test_saved_script_names_its_speakers_and_pauses_only() -> None:
    cards = (
        Card("Warning: it is hot.", None, 0.5, True, chapter="Act [I]"),
        Card("Warning: it is wet. [pause:1]", None, 0.5, True),
        Card("[speed:2] Anna: yes.", None, 0.5, False),
        Card("Part two", None, 0.5, True, chapter="Part two"),
        Card("Yes[^1]. " + "It is so. " * 90 + "No.", "Anna", 0.5, True),
    )
    saved = to_markdown(cards, 0.5)
    assert saved.startswith("---\nparagraph-pause: 0.5\nspeakers: Anna\n---\n\n[chapter:Act ")
    assert parse(saved, "a.md").cards == cards
    added = f"{saved}\nWarning: it is *cold*.\n\n***\n\n&#1;\n\n{'End. ' * MAX_CARD_TEXT}\n"
    cold, *rest = parse(added, "a.md").cards[len(cards) :]
    assert cold == Card("Warning: it is cold.", None, 0.5, True)
    assert rest[0].text == "End. End. End."
    assert [card.ends_paragraph for card in rest] == [False] * (len(rest) - 1) + [True]


def test_script_saved_without_its_paragraph_pause_is_read_like_other_markdown() -> None:
    saved = "---\nspeakers: anna\n---\n\nanna: Hi.\n\nBen: Hello. [pause:0.2]\n\n# End\n\nBen: Bye.\n"
    script = parse(saved, "a.md")
    assert [(card.speaker, card.text, card.pause) for card in script.cards] == [
        ("anna", "Hi.", PARAGRAPH_PAUSE), ("Ben", "Hello.", 0.2), (None, "End", HEADING_PAUSE),
        ("Ben", "Bye.", PARAGRAPH_PAUSE),
    ]  # fmt: skip


def test_pauses_of_cards_and_of_texts_have_the_same_limit() -> None:
    assert MAX_PAUSE == pauses.MAX_PAUSE


def test_texts_are_read_without_torch_and_without_a_database() -> None:
    code = "import sys, studio.script, studio.books.extract; sys.exit(len({'torch', 'sqlalchemy'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
