"""Folding of names and texts for comparison."""

import unicodedata


def fold_case(text: str) -> str:
    """Fold a text for comparison regardless of case: Unicode's canonical caseless matching (D145)."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def fold_for_search(text: str) -> str:
    """Like `fold_case`, but also remove accents: "jose" matches "José", and vice versa."""
    return "".join(character for character in fold_case(text) if not unicodedata.combining(character))
