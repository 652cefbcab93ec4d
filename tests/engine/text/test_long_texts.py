"""Text processing takes time linear in its length; `python -m tests.support.long_texts` measures full lengths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text import Segmentation
from engine.text.english.normalization import written_out
from storage.repositories.takes import MAX_TEXT
from studio.script.formats.markdown import is_markdown
from studio.script.formats.subtitle_reader import is_subtitles
from tests.support.linear import GROWTH, LEAST, assert_linear, faults, repeated, seconds
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

SHORT = 4_000  # long enough to detect a quadratic reader that takes a minute for the largest text
QUICK = ("SSML", "plan", "pronounceable", "plain text", "WebVTT", "pasted")  # together they cover all code
TEXTS = dict(texts())


def scaling_faults(read: Read, make: Make) -> list[str]:
    """Compare times of several lengths, unless the longest is too quick for a fault, whatever the others are."""
    read = accepting_refusals(read)
    return faults(read, make, SHORT, limit=LIMIT) if seconds(read, make(SHORT)) > GROWTH * LEAST else []


def test_largest_text_equals_storage_limit() -> None:
    assert LARGEST == MAX_TEXT


@pytest.mark.parametrize("name", QUICK)
def test_time_is_linear_in_length(name: str) -> None:
    """A pasted text that is neither Markdown nor subtitles is plain text, which is not read once more."""
    units = UNITS if name != "plain text" else [unit for unit in UNITS if not is_plain(repeated(unit)(SHORT))]
    found = {unit: why for unit in units if (why := scaling_faults(READERS[name], repeated(unit)))}
    assert found == {}


def is_plain(text: str) -> bool:
    return not is_markdown(text) and not is_subtitles(text)


@settings(deadline=None, max_examples=6)
@given(st.lists(st.sampled_from(UNITS), min_size=1, max_size=6).map("".join))
def test_time_is_linear_for_mixed_units(unit: str) -> None:
    found = {name: why for name, read in READERS.items() if (why := scaling_faults(read, repeated(unit)))}
    assert found == {}


# Each of these once took from three seconds to minutes, for different reasons.
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pasted", "'[SCENE'"),
        ("Markdown", "deep, then lazy"),
        ("WebVTT", "'<v '"),
        ("clean_text", "marks in reverse order"),
        ("clean_text", r"'a\n'"),
        ("pronounceable", "'['"),
        ("pronounceable", "marks in reverse order"),
    ],
)
def test_formerly_quadratic_texts_take_linear_time(name: str, text: str) -> None:
    """Use a quarter of the largest length, where quadratic time is already measurable."""
    assert faults(accepting_refusals(READERS[name]), TEXTS[text], LARGEST // 4, limit=LIMIT, doublings=1) == []


def test_repeated_flag_emoji_take_linear_time() -> None:
    assert_linear(lambda text: Segmentation().plan(f"Say {text}"), repeated("🇩🇪"), 50_000, limit=LIMIT)


@pytest.mark.parametrize("unit", ["53,", "234,"])
def test_lists_of_numbers_take_linear_time(unit: str) -> None:
    """They look like one number with groups of two or three digits, but not to their ends."""
    assert_linear(written_out, repeated(unit), 16_000, limit=LIMIT)


@pytest.mark.parametrize("name", SHORT_READERS)
def test_largest_short_texts_take_linear_time(name: str) -> None:
    read, largest = SHORT_READERS[name]
    for text in ("'A'", "'[a] '"):
        assert_linear(accepting_refusals(read), TEXTS[text], largest, limit=LIMIT)
