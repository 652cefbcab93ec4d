"""Text that grows is cut at ends that more text has proved, and nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import GrowingText, Segmentation
from engine.text.growing import speakable_end


def taken(text: GrowingText) -> list[str]:
    return [segment.text for segment in text.take()]


def test_a_sentence_is_taken_once_another_begins() -> None:
    text = GrowingText()
    text.append("The rain has sto")
    assert taken(text) == []
    text.append("pped.")
    assert taken(text) == []  # it may go on: "stopped.com"
    text.append(" We")
    assert taken(text) == ["The rain has stopped."]
    text.append(" can go.")
    assert taken(text) == []
    text.finish()
    assert taken(text) == ["We can go."]
    assert text.over
    assert len(text) == len("The rain has stopped. We can go.")


def test_sentences_of_a_segment_are_counted() -> None:
    text = GrowingText(Segmentation(max_sentences=1, sentence_pause=0.25))
    text.append("One. Two. Three")
    assert [(segment.text, segment.silence_before) for segment in text.take()] == [("One.", 0), ("Two.", 0.25)]
    text.finish()
    assert [(segment.text, segment.silence_before) for segment in text.take()] == [("Three", 0.25)]


@pytest.mark.parametrize(
    ("written", "ready"),
    [
        ("It costs 3.", ""),
        ("It costs 3.5", ""),
        ("Ask Mr. Gray", ""),
        ("Really? Yes", "Really?"),
        ("One. Two. Thr", "One. Two."),
        ("Well, yes", ""),  # too little for a breath
        ("If it does not rain tomorrow, we", "If it does not rain tomorrow,"),
        ("If it does not rain tomorrow,", ""),
        ("It cost 1,000 euros and more than", ""),
        ("A title\nand its", "A title\n"),
        ("The rain has stopped. ", "The rain has stopped."),
        ("We can go.\n", "We can go.\n"),
        ("“Really?” ", "“Really?”"),
        ("Well... ", ""),
        ("Ask Mr. ", ""),
        ("It is no. ", ""),
        ("1. ", ""),
        ("今日は。明日", "今日は。"),
    ],
)
def test_ends_are_proved_by_what_follows(written: str, ready: str) -> None:
    assert written[: speakable_end(written, 300)] == ready


@pytest.mark.parametrize(
    ("written", "ready"),
    [("One moment.", "One moment."), ("It costs 3.", "It costs 3."), ("Ask Mr.", ""), ("Well…", ""), ("And so", "")],
)
def test_a_pause_ends_a_sentence_but_nothing_else(written: str, ready: str) -> None:
    text = GrowingText()
    text.append(written)
    assert taken(text) == []
    text.pause()
    assert taken(text) == [ready][: bool(ready)]
    text.append(" more")
    text.pause()
    assert taken(text) == []
    text.finish()
    assert taken(text) == [f"{written[len(ready) :]} more".strip()]


def test_a_long_text_without_marks_is_cut_between_words() -> None:
    written = "word " * 70
    end = speakable_end(written, 300)
    assert 300 < end < len(written.rstrip())
    assert written[:end].endswith("word")


@given(st.lists(st.text("aB. ,!?\n…3", max_size=8), max_size=30))
def test_however_it_is_written_nothing_is_lost(pieces: list[str]) -> None:
    text = GrowingText(Segmentation(40))
    found: list[str] = []
    for piece in pieces:
        text.append(piece)
        found += taken(text)
    text.finish()
    found += taken(text)
    assert text.over

    def letters(parts: list[str]) -> str:
        return "".join(character for character in "".join(parts) if character.isalnum())

    assert letters(found) == letters(pieces)


def test_marks_alone_are_no_segment() -> None:
    text = GrowingText()
    text.append(" … ")
    text.finish()
    assert taken(text) == []
    assert text.over


def test_what_cannot_be_spoken_is_refused_and_not_added() -> None:
    def check(piece: str) -> None:
        if "☃" in piece:
            raise InvalidText("No snowmen.")

    text = GrowingText(check=check)
    with pytest.raises(InvalidText):
        text.append("A ☃.")
    assert len(text) == 0
    text.finish()
    with pytest.raises(InvalidText, match="finished already"):
        text.append("More.")
