"""English readings of words that are written with accents: "résumé" is not "resume", and "señor" not "senor"."""

import re
import unicodedata
from collections.abc import Callable

from engine.text.english.normalization import fold

# Phones of words whose letters mislead.
_READINGS = {
    "blasé": "b l aa z ey", "brûlée": "b r uw l ey", "canapé": "k ae n ax p ey", "crème": "k r eh m",
    "déjà": "d ey zh aa", "élan": "ey l aa n", "exposé": "eh k s p ow z ey", "flambé": "f l aa m b ey",
    "hermès": "eh r m eh z", "jalapeño": "hh aa l ax p ey n y ow", "lamé": "l aa m ey", "mâché": "m ax sh ey",
    "maté": "m aa t ey", "montréal": "m ah n t r iy ao l", "pâté": "p aa t ey", "pokémon": "p ow k ax m aa n",
    "première": "p r ax m ih r", "résumé": "r eh z ax m ey", "saké": "s aa k iy", "séance": "s ey aa n s",
    "señor": "s ey n y ao r", "über": "uw b er",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")


def with_readings(text: str, read: Callable[[str], str], mark: Callable[[str], str]) -> str:
    """Replace the words that need a reading of their own by the marks of their phones.

    read: returns the phones of a word without accents, in lower case, separated by spaces. mark: of such phones.
    """

    def marked(match: re.Match[str]) -> str:
        word = match[0]
        reading = None if word.isascii() else _reading(word, read)
        return mark(reading) if reading else word

    return text if text.isascii() else _WORD.sub(marked, unicodedata.normalize("NFC", text))


def _reading(word: str, read: Callable[[str], str]) -> str | None:
    """Return the phones of a word, None if it is read as without its accents."""
    lower = word.lower()
    if lower in _READINGS:
        return _READINGS[lower]
    if word.endswith("s") and word[0].islower() and (one := _reading(word[:-1], read)):  # "Inés" is no plural
        return f"{one} z"
    plain = read(fold(lower))
    reading = _ending_in_ey(plain) if len(word) > 1 and lower.endswith(("é", "ée")) else _with_ny(lower, plain)
    return reading if reading != plain else None


def _ending_in_ey(phones: str) -> str:
    return phones if phones.endswith(" ey") else f"{phones.removesuffix(' iy')} ey"


def _with_ny(word: str, phones: str) -> str:
    """Add a "y" to the "n" of each "ñ", if each letter n is heard."""
    letters = [letter for letter in word if letter in "nñ"]
    if phones.split().count("n") != len(letters):
        return phones
    rest = iter(letters)
    heard = " ".join(f"{phone} y" if phone == "n" and next(rest) == "ñ" else phone for phone in phones.split())
    return heard.replace(" y y ", " y ")
