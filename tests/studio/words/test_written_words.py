"""Times of written words, derived from the spoken words."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.outputs import WordTime
from studio.words.written_words import WrittenWords


def timed_words(text: str, *segments: str) -> list[tuple[str, float, float]]:
    """Return the written words with their times; each word of the segments takes one second."""
    words, found, second = WrittenWords(text), [], 0
    for segment in segments:
        spoken = [WordTime(word, second + at, second + at + 1.0, 0, 0) for at, word in enumerate(segment.split())]
        second += len(spoken)
        found += [(text[start:end], begins, ends) for start, end, begins, ends in words.follow(spoken)]
    return found


@pytest.mark.parametrize(
    ("text", "segments", "expected"),
    [
        ("Well, “the end”.", ["Well, 'the end'."], [("Well,", 0, 1), ("“the", 1, 2), ("end”.", 2, 3)]),
        ("[sad] One. [pause:2]\n\nTwo!", ["One.", "Two!"], [("One.", 0, 1), ("Two!", 1, 2)]),
        ("Learn SQL now", ["Learn sequel now"], [("Learn", 0, 1), ("SQL", 1, 2), ("now", 2, 3)]),
        ("Ask Dr. Wu now", ["Ask Wu now please"], [("Ask", 0, 1), ("Wu", 1, 2), ("now", 2, 3)]),
        ("A GIF was here", ["A jiff if was here"], [("A", 0, 1), ("GIF", 1, 3), ("was", 3, 4), ("here", 4, 5)]),
        ("I see ABCD XYZA go on", ["I see it go on"], [
            ("I", 0, 1), ("see", 1, 2), ("ABCD", 2, 2.5), ("XYZA", 2.5, 3), ("go", 3, 4), ("on", 4, 5)]),
        ("Yes. SQL is it. No.", ["Yes.", "sequel", "is it.", "No."], [
            ("Yes.", 0, 1), ("SQL", 1, 2), ("is", 2, 3), ("it.", 3, 4), ("No.", 4, 5)]),
        ("We see ITALL. You see it now.", ["We see it all. You see it now."], [
            ("We", 0, 1), ("see", 1, 2), ("ITALL.", 2, 4), ("You", 4, 5), ("see", 5, 6), ("it", 6, 7), ("now.", 7, 8)]),
        ("", ["What?"], []),
        ("「你好。」我们走。", ["「你 好。」 我们 走。"], [
            ("「你", 0, 1), ("好。」", 1, 2), ("我", 2, 2.5), ("们", 2.5, 3), ("走。", 3, 4)]),
        ("今日はSQLだ。", ["今日 は シーケル だ。"], [
            ("今", 0, 0.5), ("日", 0.5, 1), ("は", 1, 2), ("SQL", 2, 3), ("だ。", 3, 4)]),
        ("น้ำดี ค่ะ", ["น้ำ ดี ค่ะ"], [("น้", 0, 2/3), ("ำ", 2/3, 1), ("ดี", 1, 2), ("ค่", 2, 2+2/3), ("ะ", 2+2/3, 3)]),
    ],
)  # fmt: skip
def test_written_words_get_the_times_of_their_spoken_forms(
    text: str, segments: list[str], expected: list[tuple[str, float, float]]
) -> None:
    assert timed_words(text, *segments) == expected


@given(st.text("ab .", max_size=40), st.lists(st.text("ab .", max_size=20), max_size=4))
def test_times_increase_and_words_appear_once(text: str, segments: list[str]) -> None:
    words, second = WrittenWords(text), 0
    found = []
    for segment in segments:
        spoken = [WordTime(word, second + at, second + at + 1.0, 0, 0) for at, word in enumerate(segment.split())]
        second += len(spoken)
        found += words.follow(spoken)
    for earlier, later in pairwise(found):
        assert earlier.first < earlier.stop <= later.first < later.stop <= len(text)
        assert earlier.start < earlier.end <= later.start + 1e-9
