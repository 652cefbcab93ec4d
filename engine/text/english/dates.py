"""Dates, times and durations as words."""

import re

from engine.text.english.numbers import cardinal, oh, ordinal, plural, year
from engine.text.english.rules import NAME, SPELL, STOP, Rule, before, ends_text, rule, spelled

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def _in_any_case(*months: str) -> str:
    """Return a pattern of names in capitals and in small letters. "march", "mar" and "may" are other words."""
    forms = (form for month in months for form in (month, month.upper(), month.lower()))
    return "|".join(form for form in forms if form not in ("march", "mar", "may"))


# The full stop of an abbreviation may also end a sentence.
_SHORT = rf"(?:{_in_any_case(*'Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec'.split())})\b(?:\.(?=\s*[\da-z,']))?"
MONTH = rf"(?:{_in_any_case(*_MONTHS)})\b|{_SHORT}"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_MONTH_NUMBER = r"(?:1[0-2]|0?[1-9])"
SHORT_WEEKDAY = "Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun"
_WEEKDAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_WEEKDAYS = {
    "mon": "Monday", "tue": "Tuesday", "wed": "Wednesday", "thu": "Thursday", "fri": "Friday", "sat": "Saturday",
    "sun": "Sunday",
}  # fmt: skip
_ALONE, _END = r"(?<![\w.,:/$£€¥₹-])", r"(?![\w/-]|[.,:]\d|%)"
# "until 2/3 full", but "on 1/5 at noon"
_PART_OF = r"(?:1/[2-8]|[23]/[345]) (?!(?:after|and|as|at|but|by|for|from|he|if|it|or|she|they|to|we|when|with)\b)[a-z]"
# After these, a day is "the fourteenth of March"; after others, as in "his 14 March speech", "fourteenth March".
_TAKES_ARTICLE = re.compile(
    r"(?:\A|[^\w\s]|\b(?:on|by|from|since|until|till|to|before|after|between|and|or|is|was|\w+day))\s*+\Z", re.I
)
_REACH = 12  # characters searched before a day or a duration
# Around durations, and not times of day.
_LASTS = re.compile(r"\b(?:is|was|of|in|for|lasts?|lasted|takes?|took|ran|runs)\s\Z", re.I)
_LONG = re.compile(r"\s(?:long|left|remaining|elapsed|hours)\b")
# "30s" is a duration after these words, unless a noun follows, as in "for 80s music", and before "later" or "pause".
_TAKES_DURATION = re.compile(
    r"\b(?:wait|waits|waited|for|in|after|takes?|took|within|every|another|about|only|just|under|over|than|at|least|most"
    r"|lasts?|lasted)\s\Z",
    re.I,
)
_AFTER_DURATION = re.compile(
    r"\s*(?:\Z|[.,;:!?)]|(?:more|later|ago|left|of|long|each|or|and|to|before|after|until|at|from|per|if|when|then)\b)"
)
_LASTING = re.compile(r"\s(?:ago|later|break|clip|delay|interval|limit|mark|pause|silence|timeout|wait|window)s?\b")
# Else a number that ends in 0, or is counted or named ("three 7s", "Windows 95s", "F-16s", "under-21s"), is a plural.
_ROUND = re.compile(r"[1-9][\d,]*0")
_COUNTED_OR_NAMED = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|both|few|many|several|the|these|those|[A-Z][A-Za-z]+)\s\Z"
    r"|\b[A-Za-z]+-\Z"
)
# After "p.m.", a name begins a clause or a sentence, unless it tells the day or where the time is so.
_CLAUSE_FOLLOWS = re.compile(
    rf"\s+(?!(?:{MONTH}|\w+day|Eastern|Central|Mountain|Pacific|Atlantic|Greenwich|\w+ time)\b)[A-Z][a-z]"
)


def _month(name: str) -> str:
    return next(month for month in _MONTHS if month.startswith(name[:3].capitalize()))


def weekday(name: str) -> str:
    """Return the day that `SHORT_WEEKDAY` matches: "Thurs" -> "Thursday"."""
    return _WEEKDAYS[name[:3].lower()]


def _weekdays(match: re.Match[str]) -> str:
    between = " to " if match[2].strip() in ("-", "–") else match[2]
    ends = match[4] and (ends_text(match) or NAME.match(match.string, match.end()))
    return f"{weekday(match[1])}{between}{weekday(match[3])}" + ("." if ends else "")


def _full(month: int, day: int, written_year: str) -> str:
    """Return a date without its month's number. A year of four digits is read by a later rule."""
    year_words = written_year if len(written_year) == 4 else oh(int(written_year))
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year_words}"


def _day_of_month(match: re.Match[str]) -> str:
    article, day, month = match[1] or "", ordinal(int(match[2])), _month(match[4])
    if not article and _TAKES_ARTICLE.search(before(match, _REACH)):
        article = "the "
    return f"{article}{day} of {month}" if article or match[3] else f"{day} {month}"


def _days_of_month(match: re.Match[str]) -> str:
    first, last = ordinal(int(match[2])), ordinal(int(match[3]))
    return f"{match[1] or 'the '}{first} to the {last} of {_month(match[4])}"


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    words = f"{cardinal(hour)} {oh(minute)}" if minute else cardinal(hour)
    seconds = f" and {_count(int(match[3]), 'second')}" if int(match[3] or 0) else ""
    if match[4]:
        return f"{words}{seconds} {_half_of_day(match, match[4])}"
    if not minute:
        words = f"{words} o'clock" if 0 < hour < 13 else f"{words} {'hundred' if hour < 25 else 'minutes'}"
    return f"{words}{seconds}"


def _count(number: int, unit: str) -> str:
    return f"{cardinal(number)} {unit}" if number == 1 else f"{cardinal(number)} {unit}s"


def _duration(match: re.Match[str]) -> str:
    """Return hours, minutes and seconds as words, without those that are zero."""
    parts = [
        _count(int(number), unit)
        for number, unit in zip(match.groups(), ("hour", "minute", "second"), strict=True)
        if int(number or 0)
    ]
    return " ".join([*parts[:-1], "and", parts[-1]] if len(parts) > 1 else parts) or match[0]


def _lasting(match: re.Match[str]) -> str:
    """Read a time with seconds as a duration where it begins with "00" or the words around it say so."""
    said = match[1] == "00" or _LASTS.search(before(match, _REACH)) or _LONG.match(match.string, match.end())
    return _duration(match) if said else match[0]


def _plural_or_seconds(match: re.Match[str]) -> str:
    """Read the "s" of "80s", "100s of people" and "three 7s" as a plural. That of seconds is read by a later rule."""
    said, text, end = before(match, _REACH), match.string, match.end()
    if _LASTING.match(text, end) or (_TAKES_DURATION.search(said) and _AFTER_DURATION.match(text, end)):
        return match[0]
    is_round = _ROUND.fullmatch(match[1]) and (match[1] != "10" or text.startswith(" of", end))  # no decade
    if not (is_round or _COUNTED_OR_NAMED.search(said)):
        return match[0]
    return plural(cardinal(int(match[1].replace(",", ""))).removeprefix("one "))  # "100s" are hundreds


def _half_of_day(match: re.Match[str], letters: str) -> str:
    is_dotted = letters.endswith(".")
    mark = "," if is_dotted and _CLAUSE_FOLLOWS.match(match.string, match.end()) else ""
    return spelled(letters, is_dotted and ends_text(match)) + mark


MONTHS: tuple[Rule, ...] = (
    rule(rf"\b({SHORT_WEEKDAY})\b\.?(\s*(?:[-–]|\b(?:and|or|to|through)\b)\s*)({SHORT_WEEKDAY})\b(\.?)", _weekdays),
    rule(  # "Sat 10am", "Mon, 5 Jan"; "Sat" and "Sun" may be other words
        rf"(?<![Tt]he )\b({SHORT_WEEKDAY})\b\.?(?=,?\s(?:(?:{_DAY}(?:st|nd|rd|th)?\s(?:of\s)?)?(?:{MONTH})"
        r"|\d{1,2}(?:/\d|:\d\d|\s?[ap]\.?m\b)|(?:morning|afternoon|evening|night)\b))",
        lambda match: weekday(match[1]),
    ),
    rule(rf"\b({MONTH}|[12]\d{{3}})\s?[-–]\s?(?=(?:{MONTH}))", r"\1 to "),
    rule(rf"\b({_SHORT}) to ({_SHORT})", lambda match: f"{_month(match[1])} to {_month(match[2])}"),
)
DATES: tuple[Rule, ...] = (
    rule(r"\b(\d{4}-\d\d-\d\d)T(?=\d\d:)", r"\1 "),
    rule(rf"{_ALONE}({_DAY})-({MONTH})-([12]\d\d\d){_END}", r"\1 \2 \3"),
    rule(rf"{_ALONE}({_DAY})-({MONTH})-(\d\d){_END}", r"\1 \2 '\3"),
    rule(rf"\b({MONTH})-({_DAY})(?:-([12]\d{{3}}))?{_END}", r"\1 \2 \3"),
    rule(  # "on 3/14"; other pairs may be fractions
        rf"\b({_WEEKDAY},? |(?:[Dd]ue|[Oo]n|[Ss]ince|[Uu]ntil) (?!{_PART_OF}))"
        rf"(?!9/11\b)({_MONTH_NUMBER})/({_DAY}){_END}(?! of\b)",
        lambda match: f"{match[1]}{_MONTHS[int(match[2]) - 1]} {ordinal(int(match[3]))}",
    ),
    rule(
        rf"{_ALONE}(\d{{4}})([-/])(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01]){_END}",
        lambda match: _full(int(match[3]), int(match[4]), match[1]),
    ),
    rule(  # as in the United States; a first number above 12 is the day
        rf"{_ALONE}({_MONTH_NUMBER})(?:/({_DAY})/(\d{{4}}|\d\d)|-({_DAY})-([12]\d{{3}})){_END}",
        lambda match: _full(int(match[1]), int(match[2] or match[4]), match[3] or match[5]),
    ),
    rule(
        rf"{_ALONE}({_DAY})([/.-])({_MONTH_NUMBER})\2([12]\d{{3}}){_END}",
        lambda match: _full(int(match[3]), int(match[1]), match[4]),
    ),
    rule(
        rf"\b({MONTH}) ({_DAY})(?:st|nd|rd|th)?\s?[-–]\s?({_DAY})(?:st|nd|rd|th)?\b(?![.,:]?\d|%|[-–/])",
        lambda match: f"{_month(match[1])} {ordinal(int(match[2]))} to {ordinal(int(match[3]))}",
    ),
    rule(
        rf"{_ALONE}([Tt]he )?({_DAY})(?:st|nd|rd|th)?\s?[-–]\s?({_DAY})(?:st|nd|rd|th)? (?:of )?({MONTH})",
        _days_of_month,
    ),
    rule(
        rf"\b({MONTH}) ({_DAY})(?:st|nd|rd|th)?\b(?![.,:]?\d|%)",
        lambda match: f"{_month(match[1])} {ordinal(int(match[2]))}",
    ),
    rule(rf"{_ALONE}([Tt]he )?\b({_DAY})(?:st|nd|rd|th)? (of )?({MONTH})", _day_of_month),
    rule(rf"\b({_SHORT}) (?='\d\d\b|(?:1\d|20)\d\d\b)", lambda match: f"{_month(match[1])} "),
)
TIMES: tuple[Rule, ...] = (
    rule(r"\b(GMT|UTC)\s?[-−–](?=\d)", r"\1 minus "),
    rule(r"\b(\d{1,2}):([0-5]\d):([0-5]\d)(?!\s*[ap]\.?m\b|[\d:])", _lasting),
    rule(  # of a race
        r"(?<![\w:])([0-5]?\d):0?([1-5]?\d\.\d{1,3})\b(?!\.\d)",
        lambda match: f"{_count(int(match[1]), 'minute')} and {match[2]} seconds",
    ),
    rule(r"(?<=\d:[0-5]\d)(?=[A-Za-z])", " "),
    rule(r"\b(\d{1,4}) ?h(?:rs?\.?)? ?(\d{1,4}) ?m(?:ins?)?(?: ?(\d{1,4}) ?s(?:ecs?)?)?\b" + STOP, _duration),
    rule(r"(?<![\w.,:])([01]?\d|2[0-4])h([0-5]\d)(?![\w:]|[.,]\d)", r"\1:\2"),  # "19h30"
    rule(r"()\b(\d{1,4}) ?m(?:ins?)? ?(\d{1,4}) ?s(?:ecs?)?\b", _duration),
    rule(r"\b(\d{1,4}) ?m(?= (?:ago|later|left|remaining)\b)", lambda match: _count(int(match[1]), "minute")),
    rule(r"(?i)(\d|\d\s?[ap]\.?m\b\.?)\s?[-–]\s?(?=\d{1,2}(?::\d\d|\s?[ap]\.?m\b))", r"\1 to "),
    rule(r"(:[0-5]\d)\s?[-–]\s?(?=\d{1,2}\b)", r"\1 to "),
    rule(r"(?i)\b(\d{1,2})\.([0-5]\d)(?=\s*[ap]\.?m\b)", r"\1:\2"),
    rule(r"(?i)\b(\d{1,2}):([0-5]\d)(?!\d)(?::([0-5]\d)(?!\d))?(?:\s*([ap]\.?m\b\.?))?", _time),
    rule(r"(?i)\b(\d{1,2})\s*([ap]\.m\.|[ap]m\b)", lambda m: f"{cardinal(int(m[1]))} {_half_of_day(m, m[2])}"),
    rule(r"\b(AD|BC|CE|BCE)(?= \d)|(?<=\d )(AD|BC|CE|BCE)\b", lambda match: spelled(match[0])),
)
DECADES: tuple[Rule, ...] = (
    rule(r"(?<![\w.,])'?00s\b", "two thousands"),
    rule(r"(?<![\w.,])'0([1-9])\b", lambda match: oh(int(match[1]))),  # the class of '05
    rule(r"(?<=\b[A-Z])([A-Z]?)(\d{1,4})s\b", lambda match: f"{match[1]}{SPELL} {plural(cardinal(int(match[2])))}"),
    rule(r"(\d0s)\s?[-–]\s?(?='?\d+0s\b)", r"\1 to "),
    rule(r"(?<![\w.,])(?!1000)([12]\d\d0)s\b", lambda match: plural(year(int(match[1])))),
    rule(r"(?<![\w.,])'?(\d{1,3}(?:,\d{3}){1,3}|\d{1,12})s\b(?!/)", _plural_or_seconds),
)
