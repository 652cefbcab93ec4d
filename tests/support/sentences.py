"""Parts of sentences for users."""

import string


def placeholders(text: str) -> set[str]:
    """Return the names of the values in a sentence."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
