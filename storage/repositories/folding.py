"""Folding of names and texts for comparison."""

import unicodedata


def fold(text: str) -> str:
    """Fold a text for comparison regardless of case: Unicode's canonical caseless matching (D145)."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def search_fold(text: str) -> str:
    """Like `fold`, but also remove accents: "jose" matches "José", and vice versa."""
    return "".join(character for character in fold(text) if not unicodedata.combining(character))
