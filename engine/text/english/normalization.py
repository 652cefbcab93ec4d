"""English text normalisation: numbers, money, times, abbreviations, acronyms and signs written out as words.

The small English model takes phones only, so all text is first written out as words. `spoken` returns lower-case
words, single upper-case letters (spelled, as in "U S A") and one of `, . ? !` for punctuation.
"""

import re
import unicodedata
from collections.abc import Callable, Container

from engine.text.marks import compose

PUNCTUATION = ",.!?"  # weakest first; of several in a row the strongest is kept

# Marks a word to be spelled; a private-use character, which normalised text never contains.
_SPELL = "\ue000"

_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
_MAX_DIGITS = 15  # longer numbers are read digit by digit
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth",
    "eight": "eighth", "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip


def cardinal(number: int) -> str:
    """Spell out a whole number: 1234 -> "one thousand two hundred thirty four"."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f" {_ONES[number % 10]}" if number % 10 else "")
    size, name = next(scale for scale in _SCALES if number >= scale[0])
    rest = number % size
    return f"{cardinal(number // size)} {name}" + (f" {cardinal(rest)}" if rest else "")


def ordinal(number: int) -> str:
    """Spell out the ordinal of a whole number: 21 -> "twenty first"."""
    head, _, last = cardinal(number).rpartition(" ")
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{head} {_ORDINALS.get(last, regular)}".strip()


def year(number: int) -> str:
    """Read a four-digit number as a year: 1984 -> "nineteen eighty four", 2007 -> "two thousand seven"."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {f'oh {_ONES[rest]}' if rest < 10 else cardinal(rest)}"


def digits(text: str) -> str:
    """Read digit by digit: "007" -> "zero zero seven"."""
    return " ".join(_ONES[int(digit)] for digit in text)


def number(text: str) -> str:
    """Spell out a number, with or without thousands separators and decimals."""
    whole, _, fraction = text.replace(",", "").partition(".")
    by_digits = len(whole) > _MAX_DIGITS or (len(whole) > 1 and whole[0] == "0")
    spoken_whole = digits(whole) if by_digits else cardinal(int(whole))
    return f"{spoken_whole} point {digits(fraction)}" if fraction else spoken_whole


def _plural(words: str) -> str:
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}es" if words.endswith("x") else f"{words}s"


_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_AMOUNTS = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion", "t": "trillion"}  # as in "$5M"
_UNITS = {
    "km": "kilometers", "cm": "centimeters", "mm": "millimeters", "kg": "kilograms", "mg": "milligrams",
    "ml": "milliliters", "mph": "miles per hour", "km/h": "kilometers per hour", "lb": "pounds",
    "lbs": "pounds", "oz": "ounces", "ft": "feet", "hz": "hertz", "khz": "kilohertz", "mb": "megabytes",
    "gb": "gigabytes", "°c": "degrees celsius", "°f": "degrees fahrenheit", "°": "degrees", "m": "meters",
    "g": "grams", "s": "seconds", "ms": "milliseconds", "min": "minutes", "hrs": "hours",
}  # fmt: skip
_CASE_SENSITIVE = ("ms", "m", "g", "s")  # in capitals these are other words: "5G", "10 M", "iPhone 5S"
_ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "prof": "professor", "jr": "junior", "sr": "senior",
    "vs": "versus", "etc": "et cetera", "approx": "approximately", "dept": "department", "gen": "general",
    "capt": "captain", "lt": "lieutenant", "col": "colonel", "sgt": "sergeant", "rev": "reverend",
    "gov": "governor", "sen": "senator", "mt": "mount", "ft": "fort", "ave": "avenue", "rd": "road",
    "blvd": "boulevard", "inc": "incorporated", "ltd": "limited", "corp": "corporation", "jan": "january",
    "feb": "february", "apr": "april", "aug": "august", "sept": "september", "oct": "october",
    "nov": "november", "dec": "december", "tel": "telephone", "fig": "figure", "vol": "volume",
}  # fmt: skip
# Abbreviations only with a capital and text after them: "Col. Brown", not "He ate a fig."
_BEFORE_NAMES = {"gen", "col", "rev", "sen", "mt", "lt", "fig", "vol", "tel", "jan", "apr", "dec"}
_SIGNS = {
    "&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "#": "number", "/": "slash",
    "×": "times", "÷": "divided by", "<": "less than", ">": "greater than", "°": "degrees", "_": "underscore",
    "½": "one half", "¼": "one quarter", "¾": "three quarters", "§": "section", "µ": "micro",
    "\\": "backslash", "^": "caret", "±": "plus or minus", "−": "minus",
    **{sign: names[1] for sign, names in _CURRENCIES.items()}, "¢": "cents",
}  # fmt: skip
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "đ": "d",
                          "Đ": "D", "ł": "l", "Ł": "L", "þ": "th", "Þ": "Th", "ð": "th", "Ð": "Th",
                          "ı": "i"})  # fmt: skip
_SPELLED = {"US", "UK", "EU", "UN", "TV", "PC", "AI", "ID", "DJ", "CD", "FM", "AC", "DC", "HR", "PM", "ER"}

_AMOUNT = "|".join(_AMOUNTS)
_CASED_UNITS = "|".join(_CASE_SENSITIVE)
_UNCASED_UNITS = "|".join(sorted(map(re.escape, _UNITS.keys() - _CASE_SENSITIVE), key=len, reverse=True))
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_MONTHS = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?"
)


def _money(match: re.Match[str]) -> str:
    one, many, cent, cents = _CURRENCIES[match[1]]
    amount, scale = match[2].replace(",", ""), match[3] or _AMOUNTS.get((match[4] or "").lower())
    if scale:
        return f"{number(amount)} {scale} {many}"
    whole, _, fraction = amount.partition(".")
    if len(fraction) not in (0, 2):
        return f"{number(amount)} {many}"
    words = f"{number(whole)} {one if whole == '1' else many}"
    if not int(fraction or "0"):
        return words
    small = f"{cardinal(int(fraction))} {cent if int(fraction) == 1 else cents}"
    return small if whole == "0" else f"{words} and {small}"


_TEXT_ENDS = re.compile(r"\s*+\Z")
_NAME = re.compile(r"\s*+[A-Z]")
_NAME_BEFORE = re.compile(r"[^.!?\s]\s+[A-Z][a-z]+\s+$")
_REACH = 60  # characters searched for a name before an abbreviation


def _ends_text(match: re.Match[str]) -> bool:
    """Whether the match ends the text, so that the full stop of an abbreviation also ends the sentence."""
    return _TEXT_ENDS.match(match.string, match.end()) is not None


def _named(letters: str, stop: bool) -> str:
    return letters.upper().replace(".", "") + _SPELL + ("." if stop else "")


def _half_of_day(match: re.Match[str], letters: str) -> str:
    return _named(letters, letters.endswith(".") and _ends_text(match))


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    words = cardinal(hour)
    if minute:
        words += f" oh {_ONES[minute]}" if minute < 10 else f" {cardinal(minute)}"
    elif not match[3]:
        words += " o'clock" if 0 < hour < 13 else " hundred"
    return f"{words} {_half_of_day(match, match[3])}" if match[3] else words


def _hour(match: re.Match[str]) -> str:
    return f"{cardinal(int(match[1]))} {_half_of_day(match, match[2])}"


def _fraction(match: re.Match[str]) -> str:
    over, under = int(match[1]), int(match[2])
    name = {2: "half", 4: "quarter"}.get(under) or ordinal(under)
    return f"{cardinal(over)} {name if over == 1 else 'halves' if under == 2 else f'{name}s'}"


def _abbreviation(match: re.Match[str]) -> str:
    """Return an abbreviation's word, with the full stop if that also ends the text."""
    word = match[1].lower()
    if word in ("dr", "st"):
        return _doctor_or_street(match, word)
    if word in _BEFORE_NAMES and (match[1].islower() or _ends_text(match)):
        return match[0]
    return _ABBREVIATIONS[word] + ("." if _ends_text(match) else "")


def _doctor_or_street(match: re.Match[str], word: str) -> str:
    """Expand "Dr." and "St." to doctor and saint before a name, to drive and street after one."""
    before = match.string[max(match.start() - _REACH, 0) : match.start()]
    name_follows = _NAME.match(match.string, match.end()) is not None
    # The first word of a sentence is always capitalised, so it is no evidence of a name.
    name_precedes = _NAME_BEFORE.search(before) is not None
    if name_follows and not name_precedes:
        return {"dr": "Doctor", "st": "Saint"}[word]
    return {"dr": "Drive", "st": "Street"}[word] + ("." if name_follows or _ends_text(match) else "")


def _dotted(match: re.Match[str]) -> str:
    return _named(match[0], _ends_text(match))


def _measure(match: re.Match[str]) -> str:
    unit = _UNITS[match[2].lower()]
    if match[1] == "1":
        first, _, rest = unit.partition(" ")
        unit = f"{'foot' if first == 'feet' else first.removesuffix('s')} {rest}".strip()
    return f"{match[1]} {unit}"


def _whole(match: re.Match[str]) -> str:
    text = match[0]
    plain = len(text) == 4 and text.isdigit()
    return year(int(text)) if plain and 1000 <= int(text) < 2100 else number(text)


_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
_RULES: tuple[_Rule, ...] = (
    (re.compile(r"\be\.g\.,?", re.I), lambda _: "for example,"),
    (re.compile(r"\bi\.e\.,?", re.I), lambda _: "that is,"),
    (re.compile(r"\bNo\.\s*(?=\d)"), lambda _: "number "),
    (re.compile(rf"(?<!\d)(?<!\d\s)\b(dr|st|{'|'.join(_ABBREVIATIONS)})\.(?!\w)", re.I), _abbreviation),
    (re.compile(r"\b(\d{1,2}):([0-5]\d)(?:\s*([ap]\.?m\b\.?))?", re.I), _time),
    (re.compile(r"\b(\d{1,2})\s*([ap]\.m\.|[ap]m\b)", re.I), _hour),
    (re.compile(r"\b(?:[A-Za-z]\.){2,}"), _dotted),
    (re.compile(rf"([$£€¥₹])\s?({_NUMBER})(?:\s?(thousand|million|billion|trillion)\b|(?i:({_AMOUNT}))\b)?"), _money),
    (re.compile(r"\b(\d+)(?:st|nd|rd|th)\b", re.I), lambda m: ordinal(int(m[1])) if len(m[1]) < 13 else m[0]),
    (re.compile(r"\b(\d{3}0)s\b"), lambda m: _plural(year(int(m[1])))),
    (re.compile(r"'?\b([1-9]0)s\b"), lambda m: _plural(cardinal(int(m[1])))),
    (
        re.compile(rf"\b({_MONTHS}) ([12]\d|3[01]|[1-9])\b(?![.,:]?\d|%)"),
        lambda match: f"{match[1]} {ordinal(int(match[2]))}",
    ),
    (re.compile(r"\b([1-9])/([2-9]|10)\b(?!/)"), _fraction),
    (re.compile(rf"(?<![\w.,])({_NUMBER})\s?({_CASED_UNITS}|(?i:{_UNCASED_UNITS}))(?![\w/])"), _measure),
    (re.compile(r"(?<=\d)\s?[-–]\s?(?=\d)"), lambda _: " to "),
    (re.compile(r"(?<![\w)])[-−](?=\d)"), lambda _: " minus "),
    (re.compile(r"(?<!\d)\d++(?:\.\d++){2,}"), lambda match: match[0].replace(".", " point ")),
    (re.compile(_NUMBER), lambda m: f" {_whole(m)} "),
    (re.compile(r"(?<=[A-Za-z])\.(?=[A-Za-z])"), lambda _: " dot "),
)

_PAUSES = str.maketrans(dict.fromkeys(";:—–()[]{}", ",") | {"…": ".", "‽": "?", "¡": "", "¿": ""})
_MAX_FOLDED = 6  # maximum characters that one character may decompose to
_QUOTES = str.maketrans({**dict.fromkeys("’‘ʼ`", "'"), **dict.fromkeys(f'“”"™©®℠{_SPELL}')})
_TOKEN = re.compile(rf"[A-Za-z]+{_SPELL}|[A-Za-z]+(?:'[A-Za-z]+)*'?|[,.!?]+")


def _compatible(sign: str) -> str:
    """Return the compatibility form of a sign. Arabic ligatures of whole sentences stay, having no English reading."""
    folded = unicodedata.normalize("NFKC", sign)
    return folded if len(folded) <= _MAX_FOLDED else sign


def fold(text: str) -> str:
    """Fold compatibility forms and accents to plain letters, and quotation marks to ' or nothing."""
    text = compose(text.translate(_QUOTES))
    kept = {*_SIGNS, "…"}  # their compatibility forms lose meaning
    text = "".join(sign if sign in kept else _compatible(sign) for sign in text)
    decomposed = unicodedata.normalize("NFD", text.translate(_LETTERS))
    # Only Latin letters lose their marks; in other scripts marks change the letter.
    latin = re.sub(r"([A-Za-z])[\u0300-\u036f]+", r"\1", decomposed)
    return unicodedata.normalize("NFC", latin)


def written_out(text: str) -> str:
    """Fold text and write out its numbers, abbreviations and signs as words. Other scripts stay unchanged."""
    text = fold(text)
    for pattern, replace in _RULES:
        text = pattern.sub(replace, text)
    text = re.sub(r"\.{2,}(?=\s*\S)", ",", text)
    text = re.sub(r"\s[-–—]+\s|--+|\n+", " , ", text)
    return "".join(f" {_SIGNS[sign]} " if sign in _SIGNS else sign for sign in text)


def spoken(text: str, known: Container[str]) -> list[str]:
    """Split `text` into words and punctuation for the lexicon.

    Args:
        text: English, as written.
        known: lower-case words that are not spelled even in capitals.

    Returns:
        Lower-case words (a-z and apostrophes), upper-case letters to be spelled (perhaps with 's: "T V's"), and single
        marks of `, . ? !`. Marks are never adjacent and never come first. Scripts other than Latin are left out; see
        `unspoken`.
    """
    found = _TOKEN.findall(written_out(text).translate(_PAUSES))
    shouting = _is_shouted([token for token in found if token.isalpha()], known)
    tokens: list[str] = []
    for token in found:
        if token[0] in PUNCTUATION:
            _add_mark(tokens, max(token, key=PUNCTUATION.index))
        else:
            tokens += _letters_or_word(token, known, shouting)
    return tokens


def _is_shouted(words: list[str], known: Container[str]) -> bool:
    """Whether the text is in all capitals, so that capitals do not indicate acronyms."""
    capitals = [word for word in words if word.isupper()]
    plain = any(len(word) > 5 or (len(word) > 2 and word.lower() in known) for word in capitals)
    return len(words) > 2 and len(capitals) > len(words) / 2 and plain


def _letters_or_word(token: str, known: Container[str], shouting: bool) -> list[str]:
    if token.endswith(_SPELL):
        return list(token.removesuffix(_SPELL))
    stem = token.removesuffix("'s") if token.endswith("'s") else token.removesuffix("s")
    if not _is_acronym(stem, known, shouting):
        return [token.lower()]
    return [*stem[:-1], stem[-1] if stem == token else f"{stem[-1]}'s"]


def _is_acronym(word: str, known: Container[str], shouting: bool) -> bool:
    if not (word.isalpha() and word.isupper()):
        return False
    if len(word) == 1:
        return word not in "AI"
    return not shouting and (word in _SPELLED or (len(word) <= 5 and word.lower() not in known))


def _add_mark(tokens: list[str], mark: str) -> None:
    if not tokens:
        return
    if tokens[-1] in PUNCTUATION:
        tokens[-1] = max(tokens[-1], mark, key=PUNCTUATION.index)
    else:
        tokens.append(mark)


def unspoken(text: str) -> list[str]:
    """Return the words of `text` that contain letters, digits or signs without an English reading, in order, each once.

    Emoji, trademark signs and punctuation are skipped.
    """
    if not any(map(_may_have_no_reading, set(text))):
        return []
    words = [word for word in written_out(text).split() if any(map(_has_no_reading, word))]
    return list(dict.fromkeys(word.strip(",.!?;:") for word in words))


def _may_have_no_reading(sign: str) -> bool:
    """Whether a sign on its own has a part without a reading."""
    return any(_has_no_reading(folded) for folded in fold(sign) if folded not in _SIGNS)


def _has_no_reading(sign: str) -> bool:
    only_styles_a_picture = "\ufe00" <= sign <= "\ufe0f" or sign == "\u20e3"
    if sign.isascii() or only_styles_a_picture:
        return False
    category = unicodedata.category(sign)
    return category[0] in "LNM" or category in ("Sm", "Sc")
