"""English text normalisation: numbers, money, times, abbreviations, acronyms and signs written out as words.

The small English model takes phones only, so all text is first written out as words. `spoken` returns lower-case
words, single upper-case letters (spelled, as in "U S A") and one of `, . ? !` for punctuation. The rules are in
`addresses`, `dates`, `formulas`, `names`, `quantities` and `verses`.
"""

import re
import unicodedata
from collections.abc import Container
from functools import lru_cache

from engine.text.english import addresses, dates, formulas, names, quantities, verses
from engine.text.english.rules import SPELL, Rule
from engine.text.tags import compose

PUNCTUATION = ",.!?"  # weakest first; of several in a row the strongest is kept
_RECENT = 128  # segments that are kept written out

_SIGNS = {
    "&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "#": "number", "/": "slash",
    "×": "times", "÷": "divided by", "<": "less than", ">": "greater than", "°": "degrees", "_": "underscore",
    "§": "section", "µ": "micro", "\\": "backslash", "^": "caret", "±": "plus or minus", "−": "minus",
    "≈": "about", "≠": "not equal to", "≤": "less than or equal to", "≥": "greater than or equal to",
    **{sign: currency[1] for sign, currency in quantities.CURRENCIES.items()}, "¢": "cents",
    "№": "number", "‰": "per thousand", "∞": "infinity", "√": "square root of",
}  # fmt: skip
_KEPT = {*_SIGNS, "…"}  # their compatibility forms lose meaning
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "đ": "d",
                          "Đ": "D", "ł": "l", "Ł": "L", "þ": "th", "Þ": "Th", "ð": "th", "Ð": "Th",
                          "ı": "i"})  # fmt: skip
_NO_PLURALS = ("As", "Is", "Us")  # of letters
_SPELLED = {
    "US", "UK", "EU", "UN", "TV", "PC", "AI", "ID", "DJ", "CD", "FM", "AC", "DC", "HR", "PM", "ER", "EST", "LA", "UPS",
    "MD", "CC",
}  # fmt: skip

_RULES: tuple[Rule, ...] = (
    *addresses.ADDRESSES,
    *formulas.MATH,
    *formulas.CHESS,
    *verses.VERSES,
    *dates.MONTHS,
    *dates.DATES,
    *names.ABBREVIATIONS,
    *dates.TIMES,
    *names.ACRONYMS,
    *names.NUMERALS,
    *quantities.TELEPHONES,
    *quantities.MONEY,
    *quantities.PER,
    *quantities.ORDINALS,
    *dates.DECADES,
    *quantities.INCHES,
    *quantities.FRACTIONS,
    *quantities.MEASURES,
    *names.LETTERS,
    *quantities.NUMBERS,
    *names.DOTS,
)

# Most texts have no digits.
_OF_DIGITS = frozenset((
    *formulas.CHESS, *verses.VERSES, *dates.DATES, *dates.TIMES, *dates.DECADES, *quantities.TELEPHONES,
    *quantities.MONEY, *quantities.ORDINALS, *quantities.INCHES, *quantities.FRACTIONS, *quantities.MEASURES,
    *quantities.NUMBERS,
))  # fmt: skip
_RULES_WITHOUT_DIGITS = tuple(each for each in _RULES if each not in _OF_DIGITS)

_PAUSES = str.maketrans(dict.fromkeys(";:—–()[]{}", ",") | {"…": ".", "‽": "?", "¡": "", "¿": ""})
_ARROW = "[\u2190-\u21ff]"
_MAX_FOLDED = 6  # maximum characters that one character may decompose to
_FRACTIONS = "½1/2 ⅓1/3 ⅔2/3 ¼1/4 ¾3/4 ⅕1/5 ⅖2/5 ⅗3/5 ⅘4/5 ⅙1/6 ⅚5/6 ⅐1/7 ⅛1/8 ⅜3/8 ⅝5/8 ⅞7/8 ⅑1/9 ⅒1/10".split()
# Signs whose compatibility forms would change the number before them.
_RAISED = str.maketrans({**{each[0]: f" {each[1:]}" for each in _FRACTIONS}, "²": " squared", "³": " cubed", "⁄": "/"})
_POWER = re.compile(r"(?:(?<=[\d)])|(?<=\b[A-Za-z]))⁻?[⁰¹²³⁴-⁹]+")  # after longer words, numbers of notes
# "¹⁴C", "Ca²⁺" and "SO₄²⁻"
_RAISED_NUMBER = re.compile(r"(?<![\w)])[⁰¹²³⁴-⁹]+(?=[A-Z])|(?<=[A-Za-z₀-₉])[²³](?=[⁺⁻])")
_DEGREES = re.compile(r"(?<=\d)º|º(?=[CF]\b)")  # the ordinal sign, in their place
_NUMBER_SIGN = re.compile(r"\b[Nn][º°]\s?(?=\d)")
_MICRO = re.compile(r"(?<=[\d\s])μ(?=[A-Za-z]\b)")  # the Greek letter
_QUOTES = str.maketrans({**dict.fromkeys("’‘ʼ`", "'"), **dict.fromkeys(f'“”"™©®℠{SPELL}')})
_DIGIT = re.compile(r"\d")
_INNER_CAPITALS = re.compile(r"[A-Z]?[a-z]+(?=[A-Z])[A-Za-z]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TOKEN = re.compile(rf"[A-Za-z]+{SPELL}(?:'s)?|[A-Za-z]+(?:'[A-Za-z]+)*'?|[,.!?]+")


def _compatible(sign: str) -> str:
    """Return the compatibility form of a sign. Arabic ligatures of whole sentences stay, having no English reading."""
    folded = unicodedata.normalize("NFKC", sign)
    return folded if len(folded) <= _MAX_FOLDED else sign


def fold(text: str) -> str:
    """Fold compatibility forms and accents to plain letters, and quotation marks to ' or nothing."""
    if text.isascii():
        return text.translate(_QUOTES)
    decomposed = unicodedata.normalize("NFD", fold_forms(text))
    # Only Latin letters lose their marks; in other scripts marks change the letter.
    latin = re.sub(r"([A-Za-z])[\u0300-\u036f]+", r"\1", decomposed)
    return unicodedata.normalize("NFC", latin)


def fold_forms(text: str) -> str:
    """As `fold`, but letters keep their accents."""
    text = _RAISED_NUMBER.sub(lambda number: f" {unicodedata.normalize('NFKC', number[0])} ", text)
    text = _POWER.sub(lambda power: "^" + unicodedata.normalize("NFKC", power[0]).replace("−", "-"), text)
    text = _MICRO.sub("µ", _DEGREES.sub("°", _NUMBER_SIGN.sub("№ ", text)))
    text = compose(text.translate(_QUOTES).translate(_RAISED))
    return "".join(sign if sign in _KEPT else _compatible(sign) for sign in text).translate(_LETTERS)


def written_out(text: str) -> str:
    """Fold text and write out its numbers, abbreviations and signs as words. Other scripts stay unchanged."""
    text = fold(quantities.lengths_written(text))
    for pattern, replace in _RULES if _DIGIT.search(text) else _RULES_WITHOUT_DIGITS:
        text = pattern.sub(replace, text)
    text = re.sub(r"\.{2,}(?=\s*\S)", ",", text)
    text = re.sub(rf"[-=]+>|\s[-–—]+\s|--+|\n+|{_ARROW}", " , ", text)
    return "".join(f" {_SIGNS[sign]} " if sign in _SIGNS else sign for sign in text)


@lru_cache(maxsize=_RECENT)
def written_out_once(text: str) -> str:
    """As `written_out`, for a segment of a text, which is measured, counted and spoken."""
    return written_out(text)


def spoken(text: str, known: Container[str]) -> list[str]:
    """Split `text` into words and punctuation for the lexicon.

    Args:
        text: English, as written.
        known: lower-case words that are not spelled even in capitals.

    Returns:
        Lower-case words (a-z and apostrophes), upper-case letters to be spelled (perhaps with 's: "T V's"), and single
        marks of `, . ? !`. Marks are never adjacent and never come first. Scripts other than Latin are left out; see
        `unpronounceable`.
    """
    found = _TOKEN.findall(written_out_once(text).translate(_PAUSES))
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
    return len(words) > 2 and 4 * len(capitals) > 3 * len(words) and plain


def _letters_or_word(token: str, known: Container[str], shouting: bool) -> list[str]:
    letters, mark, ending = token.partition(SPELL)
    if mark:
        return [*letters[:-1], letters[-1] + ending]
    if parts := _joined_words(token.removesuffix("'s"), known):
        words = [each for part in parts for each in (part.upper() if _is_short(part) else [part.lower()])]
        return [*words[:-1], words[-1] + ("'s" if token.endswith("'s") else "")]
    plain = token.rstrip("'")  # "the CEOs' pay"
    if plain in _NO_PLURALS:
        return [token.lower()]
    stem = plain.removesuffix("'s") if plain.endswith("'s") else plain.removesuffix("s")
    if not _is_acronym(stem, known, shouting):
        return [token.lower()]
    return [*stem[:-1], stem[-1] if stem == plain else f"{stem[-1]}'s"]


def _is_short(part: str) -> bool:
    """Whether a part of a joined word is spelled, although it may be a word: "iOS", "eSIM"."""
    return len(part) == 1 or (part.isupper() and len(part) <= 3)


def _joined_words(token: str, known: Container[str]) -> list[str]:
    """Return the words of a name such as "OpenAI", "macOS" or "getUserName". Empty if it is a word itself."""
    if not _INNER_CAPITALS.fullmatch(token):
        return []
    parts = _PART.findall(token)
    letters = [part.isupper() for part in parts]
    if not any(letters) and token.lower() in known:
        return []  # "YouTube"
    words = [part for part, spelled in zip(parts, letters, strict=True) if not spelled]
    are_words = all(len(word) > 2 and word.lower() in known for word in words[1:])
    first = words[0]
    return parts if are_words and (first in ("e", "i", "m") or (len(first) > 2 and first.lower() in known)) else []


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


def unpronounceable(text: str) -> list[str]:
    """Return the words of `text` that contain letters, digits or signs without an English reading, in order, each once.

    Emoji, arrows, trademark signs and punctuation are skipped.
    """
    if text.isascii() or not any(map(_may_have_no_reading, set(text))):
        return []
    words = [word for word in written_out(text).split() if any(map(_has_no_reading, word))]
    return list(dict.fromkeys(map(_without_punctuation, words)))


def _without_punctuation(word: str) -> str:
    """Return a word of any script without the punctuation before and after it."""
    return word.strip("".join(sign for sign in word if unicodedata.category(sign)[0] == "P"))


@lru_cache(maxsize=4096)
def _may_have_no_reading(sign: str) -> bool:
    """Whether a sign on its own has a part without a reading."""
    return any(_has_no_reading(folded) for folded in fold(sign) if folded not in _SIGNS)


def _has_no_reading(sign: str) -> bool:
    only_styles_a_picture = "\ufe00" <= sign <= "\ufe0f" or sign == "\u20e3"
    if sign.isascii() or only_styles_a_picture or re.match(_ARROW, sign):
        return False
    category = unicodedata.category(sign)
    return category[0] in "LNM" or category in ("Sm", "Sc")
