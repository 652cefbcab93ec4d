"""One form for letters and digits of languages other than English, which texts and recognisers write in several."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

import regex

from engine.text.english.normalization import fold_forms

# Accents that are dropped: in these scripts writers leave them out. In others, such as kana and Thai, they make other
# letters. Of Cyrillic, that of ё and the marks of stress are dropped.
_ACCENTS = regex.compile(
    r"(?<=[\p{Latin}\p{Greek}\p{Arabic}\p{Hebrew}]\p{M}*+)\p{Mn}|(?<=\p{Cyrillic}\p{M}*+)[\u0300\u0301]|(?<=е)\u0308"
)
_ANY = "".join(map(chr, range(0x300, 0x370)))
# Accents that are kept in texts of these languages, where they distinguish letters and are always written.
_KEPT = {
    **dict.fromkeys(("cs", "hr", "hu", "lt", "lv", "pl", "ro", "sk", "sl", "vi"), _ANY),
    **dict.fromkeys(("da", "fi", "nb", "nn", "no", "sv"), "\u0308\u030a"),
    **dict.fromkeys(("az", "tr"), "\u0306\u0308\u0327"),
    "de": "\u0308",
    "es": "\u0303",
    "et": "\u0303\u0308\u030c",
    "pt": "\u0303\u0327",
}
_TONES = regex.compile(r"[\u0300\u0301\u0303\u0309\u0323]")  # of Vietnamese: "hòa" and "hoà"
# Joiners and other invisible characters, the lengthening stroke of Arabic, the dot below of Indic scripts, and the two
# dots of foreign names: "Zoë".
_OPTIONAL = regex.compile(r"[\p{Cf}\u0640\u093c\u09bc\u0a3c]|(?<=[eiy])\u0308")
_NASAL = regex.compile(r"[ङञणनम]\u094d(?=[क-ह])|ँ")  # "हिन्दी" and "हिंदी"
# Letters of Arabic, Persian and Urdu that are typed in several ways, and Romanian commas below for cedillas.
_ALIKE = str.maketrans(dict(zip("ىیےکةہھ\u0326", "يييكههه\u0327", strict=True)))
_HAN = regex.compile(r"\p{Han}")
_CHINESE = ("zh", "yue", "")  # an unknown language may be
# Traditional characters that have a simplified form in some words only; letters are compared one by one.
_SIMPLIFIED_IN_WORDS = str.maketrans("著瞭覆藉", "着了复借")
_STOP_OF_ORDINAL = regex.compile(r"\.(?=[ºª])")


def plain_letters(text: str, language: str) -> str:
    """Return text in small letters and the digits 0 to 9, without the accents that its language does not need.

    Traditional Chinese characters become simplified ones: Whisper writes Mandarin in either.

    language: a primary tag; "" if unknown.
    """
    folded = fold_forms(_STOP_OF_ORDINAL.sub("", text)).casefold()
    letters = _OPTIONAL.sub("", unicodedata.normalize("NFKD", folded)).translate(_ALIKE)
    kept = _KEPT.get(language, "")
    letters = _NASAL.sub("ं", _ACCENTS.sub(lambda accent: accent[0] if accent[0] in kept else "", letters))
    if language == "vi" and (tones := "".join(_TONES.findall(letters))):
        letters = _TONES.sub("", letters) + tones
    if language in _CHINESE and _HAN.search(letters):
        letters = _simplifier().convert(letters).translate(_SIMPLIFIED_IN_WORDS)
    figures = (str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in letters)
    return unicodedata.normalize("NFC", "".join(figures))


@cache
def _simplifier() -> Any:
    """Return OpenCC's converter; it takes a tenth of a second to load."""
    from opencc import OpenCC

    return OpenCC("t2s")
