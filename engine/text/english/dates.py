"""Dates and times as words."""

import re

from engine.text.english.numbers import cardinal, oh, ordinal, plural, year
from engine.text.english.rules import Rule, ends_text, rule, spelled

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
# The full stop of an abbreviation may also end a sentence.
_SHORT = r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b(?:\.(?=\s*[\da-z,]))?"
_MONTH = rf"(?:{'|'.join(_MONTHS)})\b|{_SHORT}"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_MONTH_NUMBER = r"(?:1[0-2]|0?[1-9])"
_ALONE, _END = r"(?<![\w.,:/$£€¥₹-])", r"(?![\w/-]|[.,:]\d|%)"
# After these, a day is "the fourteenth of March"; after others, as in "his 14 March speech", "fourteenth March".
_TAKES_ARTICLE = re.compile(
    r"(?:\A|[^\w\s]|\b(?:on|by|from|since|until|till|to|before|after|between|and|or|is|was))\s*+\Z", re.I
)
_REACH = 12  # characters searched before a day


def _month(name: str) -> str:
    return next(month for month in _MONTHS if month.startswith(name[:3]))


def _full(month: int, day: int, written_year: str) -> str:
    """Return a date without its month's number. A year of four digits is read by a later rule."""
    year_words = written_year if len(written_year) == 4 else oh(int(written_year))
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year_words}"


def _day_of_month(match: re.Match[str]) -> str:
    day, month = ordinal(int(match[2])), _month(match[3])
    before = match.string[max(0, match.start() - _REACH) : match.start()]
    if match[1] or _TAKES_ARTICLE.search(before):
        return f"{match[1] or 'the '}{day} of {month}"
    return f"{day} {month}"


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    words = f"{cardinal(hour)} {oh(minute)}" if minute else cardinal(hour)
    if match[3]:
        return f"{words} and {_seconds(int(match[3]))}"
    if match[4]:
        return f"{words} {_half_of_day(match, match[4])}"
    return words if minute else f"{words} o'clock" if 0 < hour < 13 else f"{words} hundred"


def _seconds(number: int) -> str:
    return f"{cardinal(number)} {'second' if number == 1 else 'seconds'}"


def _half_of_day(match: re.Match[str], letters: str) -> str:
    return spelled(letters, letters.endswith(".") and ends_text(match))


DATES: tuple[Rule, ...] = (
    rule(
        rf"{_ALONE}(\d{{4}})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01]){_END}",
        lambda match: _full(int(match[2]), int(match[3]), match[1]),
    ),
    rule(  # as in the United States; a first number above 12 is the day
        rf"{_ALONE}({_MONTH_NUMBER})/({_DAY})/(\d{{4}}|\d\d){_END}",
        lambda match: _full(int(match[1]), int(match[2]), match[3]),
    ),
    rule(
        rf"{_ALONE}({_DAY})([/.])({_MONTH_NUMBER})\2([12]\d{{3}}){_END}",
        lambda match: _full(int(match[3]), int(match[1]), match[4]),
    ),
    rule(
        rf"\b({_MONTH}) ({_DAY})(?:st|nd|rd|th)?\b(?![.,:]?\d|%)",
        lambda match: f"{_month(match[1])} {ordinal(int(match[2]))}",
    ),
    rule(rf"{_ALONE}(the )?\b({_DAY})(?:st|nd|rd|th)? (?:of )?({_MONTH})", _day_of_month),
    rule(rf"\b({_SHORT}) (?=(?:1\d|20)\d\d\b)", lambda match: f"{_month(match[1])} "),
)
TIMES: tuple[Rule, ...] = (
    rule(r"(?i)(\d|\d\s?[ap]\.?m\b\.?)\s?[-–]\s?(?=\d{1,2}(?::\d\d|\s?[ap]\.?m\b))", r"\1 to "),
    rule(r"(?i)\b(\d{1,2})\.([0-5]\d)(?=\s*[ap]\.?m\b)", r"\1:\2"),
    rule(r"(?i)\b(\d{1,2}):([0-5]\d)(?!\d)(?::([0-5]\d)(?!\d))?(?:\s*([ap]\.?m\b\.?))?", _time),
    rule(r"(?i)\b(\d{1,2})\s*([ap]\.m\.|[ap]m\b)", lambda m: f"{cardinal(int(m[1]))} {_half_of_day(m, m[2])}"),
    rule(r"\b(AD|BC|CE|BCE)(?= \d)|(?<=\d )(AD|BC|CE|BCE)\b", lambda match: spelled(match[0])),
)
DECADES: tuple[Rule, ...] = (
    rule(r"\b(\d{3}0)s\b", lambda match: plural(year(int(match[1])))),
    rule(r"'?\b([1-9]0)s\b", lambda match: plural(cardinal(int(match[1])))),
)
