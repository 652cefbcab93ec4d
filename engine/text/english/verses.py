"""Verses of the Bible as words: "1 Cor. 13:4-8" as "First Corinthians thirteen, verses four to eight"."""

import re

from engine.text.english.numbers import cardinal, ordinal
from engine.text.english.rules import Rule, rule

# Abbreviations, also for `engine.text.sentences`: the full stop of "Matt. 5:3" ends no sentence.
BOOKS = {
    "Gen": "Genesis", "Ex": "Exodus", "Exod": "Exodus", "Lev": "Leviticus", "Num": "Numbers", "Deut": "Deuteronomy",
    "Josh": "Joshua", "Judg": "Judges", "Sam": "Samuel", "Kgs": "Kings", "Chron": "Chronicles", "Neh": "Nehemiah",
    "Esth": "Esther", "Ps": "Psalm", "Pss": "Psalms", "Prov": "Proverbs", "Eccl": "Ecclesiastes", "Isa": "Isaiah",
    "Jer": "Jeremiah", "Lam": "Lamentations", "Ezek": "Ezekiel", "Dan": "Daniel", "Hos": "Hosea", "Obad": "Obadiah",
    "Mic": "Micah", "Nah": "Nahum", "Hab": "Habakkuk", "Zeph": "Zephaniah", "Hag": "Haggai", "Zech": "Zechariah",
    "Mal": "Malachi", "Matt": "Matthew", "Rom": "Romans", "Cor": "Corinthians", "Gal": "Galatians", "Eph": "Ephesians",
    "Phil": "Philippians", "Col": "Colossians", "Thess": "Thessalonians", "Tim": "Timothy", "Tit": "Titus",
    "Philem": "Philemon", "Heb": "Hebrews", "Jas": "James", "Pet": "Peter", "Rev": "Revelation",
}  # fmt: skip
_NAMES = {*BOOKS.values(), "Ruth", "Ezra", "Job", "Joel", "Amos", "Jonah", "Mark", "Luke", "John", "Acts", "Jude"}
# Of these there are two, with numbers; without one they are other names: "Tim 7:45", "Kings 3:2".
_NUMBERED = {
    "Sam", "Samuel", "Kgs", "Kings", "Chron", "Chronicles", "Cor", "Corinthians", "Thess", "Thessalonians", "Tim",
    "Timothy", "Pet", "Peter",
}  # fmt: skip


def _one_of(names: set[str]) -> str:
    return "|".join(sorted(names))


def _verses(match: re.Match[str]) -> str:
    place, book, chapter, first, last = match.groups()
    name = f"{ordinal(int(place)).capitalize()} {BOOKS.get(book, book)}" if place else BOOKS.get(book, book)
    verses = f"verses {cardinal(int(first))} to {cardinal(int(last))}" if last else f"verse {cardinal(int(first))}"
    return f"{name} {cardinal(int(chapter))}, {verses}"


VERSES: tuple[Rule, ...] = (
    rule(
        rf"\b(?:([123]) (?=(?:{_one_of(_NUMBERED)}|John)\b)|(?!(?:{_one_of(_NUMBERED)})\b))"
        rf"({_one_of({*BOOKS, *_NAMES})})\b\.? ([1-9]\d{{0,2}}):([1-9]\d{{0,2}})(?:\s?[-–]\s?(\d{{1,3}}))?\b"
        r"(?![:.]\d|\s*[ap]\.?m\b)",
        _verses,
    ),
)
