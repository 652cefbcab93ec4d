"""Language tags, and the English names that models use for them."""

from collections.abc import Collection

_NAMES = {
    "ar": "arabic",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "zh": "chinese",
}


def language_tags(names: Collection[str]) -> list[str]:
    """Return the tags for English names of languages, in alphabetical order; unknown names are skipped."""
    return [tag for tag, name in _NAMES.items() if name in names]


def language_name(tag: str) -> str:
    """Return the English name of a language in lower case from a tag such as `de-AT`; "" for an unknown tag."""
    return _NAMES.get(tag.lower().replace("_", "-").partition("-")[0], "")


def language_tag(language: str) -> str:
    """Return the primary tag of a language from a tag or an English name, such as `de` from `de-AT` or `German`.

    Returns "" for "", "auto" and unknown names.
    """
    wanted = language.strip().lower()
    named = next((tag for tag, name in _NAMES.items() if name == wanted), None)
    primary = named or wanted.replace("_", "-").partition("-")[0]
    return primary if len(primary) in (2, 3) else ""
