"""Growing text is cut at segment ends that following text confirms, and no text is lost."""

from collections.abc import Callable
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import GrowingText, Respelling, Segmentation
from engine.text.growing import speakable_end
from engine.text.pauses import split_pauses


def take_texts(text: GrowingText) -> list[str]:
    return [segment.text for segment in text.take()]


def test_sentence_is_taken_when_the_next_begins() -> None:
    text = GrowingText()
    text.append("The rain has sto")
    assert take_texts(text) == []
    text.append("pped.")
    assert take_texts(text) == []  # it may continue: "stopped.com"
    text.append(" We")
    assert take_texts(text) == ["The rain has stopped."]
    text.append(" can go.")
    assert take_texts(text) == []
    text.finish()
    assert take_texts(text) == ["We can go."]
    assert text.over
    assert len(text) == len("The rain has stopped. We can go.")


def test_ended_line_is_taken_whole() -> None:
    text = GrowingText()
    text.append("The rain has stopped. We")
    text.end_line()
    text.end_line()
    assert take_texts(text) == ["The rain has stopped. We"]
    text.end_line()
    text.append(" can go.")
    text.finish()
    assert take_texts(text) == ["can go."]
    assert len(text) == len("The rain has stopped. We can go.")


def test_segment_has_max_sentences_and_sentence_pauses() -> None:
    text = GrowingText(Segmentation(max_sentences=1, sentence_pause=0.25))
    text.append("One. Two. Three")
    assert [(segment.text, segment.silence_before) for segment in text.take()] == [("One.", 0), ("Two.", 0.25)]
    text.finish()
    assert [(segment.text, segment.silence_before) for segment in text.take()] == [("Three", 0.25)]


@pytest.mark.parametrize(
    ("end", "before"), [("[pause:0]\n", 0), ("[pause:0] …\n", 0), ("[pause:1]\n", 0), ("\n", 0.25)]
)
def test_pause_before_the_end_of_a_part_replaces_that_of_the_sentence(end: str, before: float) -> None:
    text = GrowingText(Segmentation(sentence_pause=0.25))
    text.append(f"One. {end}")
    assert take_texts(text) == ["One."]
    text.append("Two.\n")
    assert [(segment.text, segment.silence_before) for segment in text.take()] == [("Two.", before)]


def test_taken_text_is_told_as_written() -> None:
    text = GrowingText()
    text.respell = lambda piece: Respelling(((piece.replace("It", "That"), piece),))
    taken = []
    for piece in (" ", "…\n", "It rains. It", " pours. "):
        text.append(piece)
        taken += [segment.text for segment in text.take()]
    text.finish()
    taken += [segment.text for segment in text.take()]
    assert taken == ["… That rains.", "That pours."]
    assert [each.written for each in text.taken] == [" …\nIt rains.", " It pours."]
    assert len(text) == len(" …\nIt rains. It pours. ")


def test_pauses_of_all_parts_have_a_total_limit() -> None:
    text = GrowingText()
    for _ in range(10):
        text.append("One. [pause:60] Two. [pause:")
        text.append("0] ")
        assert take_texts(text)
    text.append("One. [pause:1] Two. Three")
    with pytest.raises(InvalidText, match="10 minutes in total"):
        text.take()


@pytest.mark.parametrize(
    ("written", "ready"),
    [
        ("It costs 3.", ""),
        ("It costs 3.5", ""),
        ("Ask Mr. Gray", ""),
        ("Really? Yes", "Really?"),
        ("One. Two. Thr", "One. Two."),
        ("Well, yes", ""),  # too short to cut at a clause
        ("No, not today, we", ""),
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
        ("Er kommt am 5.", ""),
        ("Er kommt am 5. Aug", ""),
        ("Er kommt am 5. August. Dann", "Er kommt am 5. August."),
        ("Berlin, 5. ", ""),
        ("Berlin, 5. Au", ""),
        ("It costs 5. And", "It costs 5."),
        ("We met on Mon. ", ""),
        ("We met on Mon. J", ""),
        ("We met on Mon. John", "We met on Mon."),
        ("Turn to Fig. ", ""),
        ("今日は。明日", "今日は。"),
        ("Then she said this to him [in a hushed, low", ""),
        ("If it does not rain tomorrow, [whispers. very qui", "If it does not rain tomorrow,"),
        ("Here it is. [", "Here it is."),
        ("今日は。[whis", "今日は。"),
        ("明日は、とても、天気が、[whis", "明日は、とても、天気が、"),
        ("Here it is. <|speaker:", "Here it is."),
        ("Here it is. <|speaker:1|", "Here it is."),
        ("The list [1, 2, 3] is long, or so they", "The list [1, 2, 3] is long,"),
    ],
)
def test_speakable_end_depends_on_following_text(written: str, ready: str) -> None:
    assert written[: speakable_end(written, 300)] == ready


@pytest.mark.parametrize(
    ("written", "ready"),
    [
        ("One moment.", "One moment."),
        ("It costs 3.", "It costs 3."),
        ("Am 3.", ""),
        ("Ask Mr.", ""),
        ("Well…", ""),
        ("And so", ""),
    ],
)
def test_pause_ends_complete_sentences_only(written: str, ready: str) -> None:
    text = GrowingText()
    text.append(written)
    assert take_texts(text) == []
    text.pause()
    assert take_texts(text) == [ready][: bool(ready)]
    text.append(" more.")
    assert take_texts(text) == [], "the pause is over"
    text.append("x")
    text.pause()
    assert take_texts(text) == []
    text.finish()
    assert take_texts(text) == [f"{written[len(ready) :]} more.x".strip()]


def test_long_text_without_punctuation_is_cut_between_words() -> None:
    written = "word " * 70
    end = speakable_end(written, 300)
    assert 300 < end < len(written.rstrip())
    assert written[:end].endswith("word")


def test_long_text_without_punctuation_is_cut_before_a_phrase() -> None:
    written = "She told the old man who lived in the house at the end of a very long lane"
    assert written[: speakable_end(written, 72)] == "She told the old man who lived in the house"


def test_endless_word_is_cut_between_graphemes() -> None:
    assert speakable_end("e\u0301" * 151, 300) == 2 * 150
    assert speakable_end("a" * 310 + "[whispers", 300) == 310


@pytest.mark.parametrize("unit", ["a", "[a", "<|", "…", ". ", "… a… ", "[pause:0.1]…"])
def test_each_part_of_a_text_written_in_characters_is_read_a_limited_number_of_times(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda text, *more, **named: read.append(len(text)) or function(text, *more, **named)

    monkeypatch.setattr("engine.text.growing.speakable_end", counted(speakable_end))
    monkeypatch.setattr("engine.text.segmentation.split_pauses", counted(split_pauses))
    text = GrowingText()
    for character in (unit * 1_000)[:1_000]:
        text.append(character)
        text.take()
    text.finish()
    text.take()
    assert sum(read) <= 1_000 * 310


@given(st.lists(st.text("aB. ,!?\n…3", max_size=8), max_size=30))
def test_no_text_is_lost_for_any_pieces(pieces: list[str]) -> None:
    text = GrowingText(Segmentation(40))
    found: list[str] = []
    for piece in pieces:
        text.append(piece)
        found += take_texts(text)
    text.finish()
    found += take_texts(text)
    assert text.over

    def letters(parts: list[str]) -> str:
        return "".join(character for character in "".join(parts) if character.isalnum())

    assert letters(found) == letters(pieces)


@pytest.mark.parametrize("pieces", ["words", "characters", "whole"])
@pytest.mark.parametrize(
    "written",
    [
        "<|speaker:1|>Hello there my friend. How are you today? <|speaker:0|>I am fine. Thanks.",
        "<|speaker:1|>Hello there my friend. [pause:1] How are you today? [pause:1] <|speaker:0|>[pause:1]I am fine.",
        "She stopped and looked at him, [whispers. very quietly] Come here.",
        "We shall wait for it now.\n[pause: 1.5]\nAnd then we go.",
        "<|speaker:0|>Hello there.\n<|speaker:1|>\nAnd hello to you.\n<|speaker:0|>Well…\nGoodbye then.",
        "<|speaker:0|>Well, yes <|speaker:1|>Oh no\n\n<|speaker:0|>Why",
        "Shopping\n\n- Milk\n- Eggs\n\nWe need both of them.\nToday, if you can.",
        "We went home at eight\nand slept until the morning. Good night.",
        "<|speaker:0|>Hello there\n\n<|speaker:1|>\nAnd hello<|speaker:1|>\n\nAgain",
        "Milk\u2028Eggs and butter\v\nBread. We need it.\r\rToday\r\nIf you can. \u2029\u2029And soon",
    ],
)
def test_tags_and_pauses_are_as_in_a_whole_text(written: str, pieces: str) -> None:
    segmentation = Segmentation(max_sentences=1, sentence_pause=0.25)
    text, found = GrowingText(segmentation), []
    for piece in {"words": regex.findall(r"\S+\s*", written), "characters": list(written), "whole": [written]}[pieces]:
        text.append(piece)
        found += text.take()
    text.finish()
    found += text.take()
    assert " ".join(segment.text for segment in found) == " ".join(each.text for each in segmentation.plan(written))
    speakers = [segment.speakers for segment in found if segment.speakers]
    assert speakers == [each.speakers for each in segmentation.plan(written) if each.speakers]
    silences = [segment.silence_before + segment.silence_after for segment in found]
    assert sum(silences) == sum(each.silence_before + each.silence_after for each in segmentation.plan(written))


def test_pause_that_is_too_long_is_an_error() -> None:
    text = GrowingText()
    text.append("The first sentence. Take a break [pause:90] and then go on. The last one.")
    text.finish()
    with pytest.raises(InvalidText, match="at most 60 seconds"):
        text.take()


def test_pauses_after_the_last_segment_are_the_final_pause() -> None:
    text = GrowingText()
    text.append("Hello. ")
    assert take_texts(text) == ["Hello."]
    text.append("[pause:2] … [pause:0.5]")
    assert take_texts(text) == []
    text.finish()
    assert not text.over
    assert take_texts(text) == []
    assert take_texts(text) == []
    assert (text.over, text.final_pause) == (True, 2.5)


def test_punctuation_alone_makes_no_segment() -> None:
    text = GrowingText()
    text.append(" … ")
    text.finish()
    assert take_texts(text) == []
    assert text.over


def test_piece_is_checked_with_the_word_that_it_continues() -> None:
    """An accent alone would be refused."""
    checked: list[str] = []
    text = GrowingText(check=checked.append)
    for piece in ("A cafe", "\u0301 au", " lait."):
        text.append(piece)
    assert checked == ["A cafe", "cafe\u0301 au", "au lait."]
    text.finish()
    assert take_texts(text) == ["A café au lait."]


def test_rejected_piece_is_not_added() -> None:
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
