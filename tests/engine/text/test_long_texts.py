"""No text takes time that grows faster than its length; `python -m tests.support.long_texts` looks at full length."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text import plan_segments
from storage.repositories.generations import MAX_TEXT
from tests.support.linear import LEAST, assert_linear, faults, repeated, seconds
from tests.support.long_texts import (
    LARGEST,
    LIMIT,
    READERS,
    SHORT_READERS,
    UNITS,
    Make,
    Read,
    accepting_refusals,
    texts,
)

SHORT = 4_000  # a quadratic reader that took a minute for the largest text shows here
QUICK = ("plan", "pronounceable", "plain text", "WebVTT", "pasted")  # between them they run all code once
TEXTS = dict(texts())


def slow(read: Read, make: Make) -> list[str]:
    """Most are done in no time, and need no comparison."""
    read = accepting_refusals(read)
    return faults(read, make, SHORT, limit=LIMIT) if seconds(read, make(SHORT)) > LEAST else []


def test_the_largest_text_is_the_largest_that_is_accepted() -> None:
    assert LARGEST == MAX_TEXT


@pytest.mark.parametrize("name", QUICK)
def test_time_grows_with_length(name: str) -> None:
    found = {unit: why for unit in UNITS if (why := slow(READERS[name], repeated(unit)))}
    assert found == {}


@settings(deadline=None, max_examples=6)
@given(st.lists(st.sampled_from(UNITS), min_size=1, max_size=6).map("".join))
def test_time_grows_with_length_of_any_mixture(unit: str) -> None:
    found = {name: why for name, read in READERS.items() if (why := slow(read, repeated(unit)))}
    assert found == {}


# Each of these once took from three seconds to minutes, by a fault of its own.
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pasted", "'[SCENE'"),
        ("Markdown", "deep, then lazy"),
        ("WebVTT", "'<v '"),
        ("normalise", "marks in reverse order"),
        ("normalise", r"'a\n'"),
        ("pronounceable", "'['"),
        ("pronounceable", "marks in reverse order"),
    ],
)
def test_texts_that_took_minutes_take_time_that_grows_with_length(name: str, text: str) -> None:
    """At a quarter of the largest length, where a time that grows with its square already shows."""
    assert faults(accepting_refusals(READERS[name]), TEXTS[text], LARGEST // 4, limit=LIMIT, doublings=1) == []


def test_a_flag_of_many_letters_is_read_in_time() -> None:
    assert_linear(lambda text: plan_segments(f"Say {text}"), repeated("🇩🇪"), 50_000, limit=LIMIT)


@pytest.mark.parametrize("name", SHORT_READERS)
def test_the_largest_short_texts_are_read_in_time(name: str) -> None:
    read, largest = SHORT_READERS[name]
    for text in ("'A'", "'[a] '"):
        assert_linear(accepting_refusals(read), TEXTS[text], largest, limit=LIMIT)
