"""Wrong transcripts of references: too short, too long, or missing.

Users transcribe half a clip, or more than it contains. Training with wrong transcripts beside the right codes makes the
dual AR take its pace from the codes and not from the number of words.
"""

import numpy as np

from engine.text.english.pronunciation import WORD_BREAK

_KINDS = ("short", "long", "missing")
_CHANCES = (0.5, 0.3, 0.2)
_KEPT = 0.15, 0.75  # fraction of the words kept in a transcript that is too short


def damaged(phones: str, other: str, rng: np.random.Generator) -> str:
    """Return a wrong transcript for speech with these phones; `other` are phones that were not said."""
    kind = rng.choice(_KINDS, p=_CHANCES)
    if kind == "missing":
        return ""
    if kind == "long":
        return " ".join((phones, other) if rng.random() < 0.5 else (other, phones))
    words = phones.split(f" {WORD_BREAK} ")
    count = max(1, round(len(words) * rng.uniform(*_KEPT)))
    start = 0 if rng.random() < 0.5 else len(words) - count
    return f" {WORD_BREAK} ".join(words[start : start + count])
