"""Pause tags in a text: their place in the plan of segments, and invalid pauses."""

import pytest

from engine.errors import InvalidText
from engine.text import Segmentation, speaking_time, with_paragraph_pauses


def plan(text: str) -> list[tuple[str, float, float]]:
    return [(segment.text, segment.silence_before, segment.silence_after) for segment in Segmentation().plan(text)]


def test_pause_ends_a_segment_and_follows_it() -> None:
    assert plan("One. [pause:0.5] Two [PAUSE: 1,25 s] three.[pause:2]") == [
        ("One.", 0.0, 0.5),
        ("Two", 0.0, 1.25),
        ("three.", 0.0, 2.0),
    ]
    assert plan("[pause:1][pause:0.5]One.[pause:1] [pause:2]") == [("One.", 1.5, 3.0)]
    assert plan("One. [pause:750ms] Two. [pause: 1500 MS]") == [("One.", 0.0, 0.75), ("Two.", 0.0, 1.5)]
    for text in ("[pause] One [pause:long].", "One [pause:5mss]."):
        assert plan(text) == [(text, 0.0, 0.0)], "not pauses but style tags"


def test_speaker_continues_after_a_pause() -> None:
    text = "<|speaker:0|>One.<|speaker:1|>Two. [pause:1] Three.[pause:1]<|speaker:0|>Four."
    assert [segment.text for segment in Segmentation().plan(text)] == [
        "<|speaker:0|>One.\n<|speaker:1|>Two.",
        "<|speaker:1|>Three.",
        "<|speaker:0|>Four.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[pause:1]",
        " [pause:1] . [pause:2]",
        "One. [pause:61]",
        "One. [pause:99999]",
        "One. [pause:1e9 s]",
        "One. [pause:0.00001][pause:60.00001]",
        "One. [pause:60001ms]",
    ],
)
def test_text_of_pauses_and_overlong_pause_are_rejected(text: str) -> None:
    with pytest.raises(InvalidText):
        Segmentation().plan(text)


def test_pauses_of_a_text_have_a_total_limit() -> None:
    assert plan("Hi. " + "[pause:60]" * 10 + "Ho.") == [("Hi.", 0.0, 600.0), ("Ho.", 0.0, 0.0)]
    with pytest.raises(InvalidText, match="10 minutes in total"):
        Segmentation().plan("Hi. " + "[pause:60]" * 10 + "Ho. [pause:.5]")


def test_speaking_time_includes_pauses() -> None:
    assert speaking_time("One. [pause:3.5] Two.") == pytest.approx(speaking_time("One.   Two.") + 3.5, abs=0.1)


def test_paragraphs_are_separated_by_pauses() -> None:
    text = "\nOne.\nStill one.\n\n  \nTwo.\r\n"
    assert with_paragraph_pauses(text, 0.75) == "\nOne.\nStill one.\n[pause:0.75]\nTwo.\r\n"
    assert with_paragraph_pauses(text, 0) == text
