"""Words of a text and words that were heard."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.proof.compare import compare

TEXT = "The quick brown fox jumps."


def marked(text: str, heard: str) -> list[str]:
    return [text[start:end] for start, end in compare(text, heard).marks]


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        (TEXT, "the QUICK, brown fox -- jumps"),
        ("It costs $19.50 at 7:45.", "It costs nineteen dollars and fifty cents at seven forty-five."),
        ("We met on March 3rd, 2027.", "we met on march third 2027"),
        ("Don’t say good-bye to Mr. Naïve.", "Dont say goodbye to mister naive"),
        ("[whisper] Come here. [pause:0.5] Now!", "Come here now."),
        ("今日はいい天気です。", "今日は いい天気です"),
        ("Straße und Bäume", "strasse und baume"),
        ("…", ""),
    ],
)
def test_only_words_count(text: str, heard: str) -> None:
    assert compare(text, heard).word_error == 0
    assert compare(text, heard).marks == ()


@pytest.mark.parametrize(
    ("heard", "wrong", "error"),
    [
        ("The quick brown box jumps.", ["fox"], 0.2),
        ("The brown fox jumps.", ["quick"], 0.2),
        ("The quick brown fox jumps over.", ["jumps."], 0.2),
        ("Oh the quick brown fox jumps.", ["The"], 0.2),
        ("The slow red fox jumps.", ["quick", "brown"], 0.4),
        ("", ["The", "quick", "brown", "fox", "jumps."], 1.0),
    ],
)
def test_what_differs_is_marked_where_it_stands(heard: str, wrong: list[str], error: float) -> None:
    assert marked(TEXT, heard) == wrong
    assert compare(TEXT, heard).word_error == pytest.approx(error)


def test_a_sign_of_a_script_without_spaces_is_marked_alone() -> None:
    assert marked("今日はいい天気です。", "昨日はいい天気です") == ["今"]


def test_a_number_is_marked_as_a_whole_and_tags_keep_the_places() -> None:
    assert marked("[sad] He owes 1,200 pounds.", "He owes one thousand three hundred pounds.") == ["1,200"]


def test_words_that_are_no_text_are_all_wrong() -> None:
    assert compare("[laugh]", "Ha ha.").word_error == 1
    assert compare("[laugh]", "").word_error == 0


@settings(max_examples=30)
@given(st.lists(st.sampled_from("a b c".split())), st.lists(st.sampled_from("a b c".split())))
def test_the_error_is_that_of_the_shortest_way_at_most(said: list[str], heard: list[str]) -> None:
    found = compare(" ".join(said), " ".join(heard))
    assert (found.word_error == 0) == ("".join(said) == "".join(heard))
    assert all(0 <= start < end <= len(" ".join(said)) for start, end in found.marks)
