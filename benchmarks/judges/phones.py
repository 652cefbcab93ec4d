"""Phone recognition with a small recogniser (`training/recogniser/model.py`), without a language model.

A word recogniser guesses likely words and does not distinguish a nearly right word from a missing one. This recogniser
outputs phones; each phone missing, wrong or added relative to the engine's pronunciation of the text is an error.

Versions of the bundled model from 2.2 on were trained with this recogniser, so its error rates of them are too low.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.judges.sound import at_rate, level
from engine.text.english.pronunciation import Lexicon
from training.recogniser.edits import edit_distance
from training.recogniser.model import RATE, WEIGHTS, LogMel, Recogniser, decode
from training.speech.lexicon import LEXICON

_SHORTEST = 0.1  # s
_QUIET = -80.0  # dBFS; quieter samples count as silence


@dataclass(frozen=True)
class PhoneErrors:
    """Number of insertions, deletions and substitutions, and the number of phones in the text."""

    errors: int
    phones: int


class PhoneJudge:
    """A phone recogniser without state between utterances."""

    def __init__(self) -> None:
        self._lexicon = Lexicon.load(LEXICON)
        self._model, self._mel = Recogniser.load(WEIGHTS), LogMel()

    @torch.inference_mode()
    def hear(self, samples: NDArray[np.float32], sample_rate: int) -> list[str]:
        """Recognise the phones in mono samples [n] at `sample_rate` Hz; none in silence."""
        if len(samples) < _SHORTEST * sample_rate or level(samples) < _QUIET:
            return []
        wave = at_rate(samples, sample_rate, RATE)
        return decode(self._model(self._mel(wave)[None])[0])

    def spelled(self, text: str) -> list[str]:
        """Return the phones of a text as the engine pronounces it, without word breaks and marks."""
        return self._lexicon.phone_list(text)

    def errors(self, said: str, heard: list[str]) -> PhoneErrors:
        """Count the errors (Levenshtein distance) between the phones of `said` and the recognised ones."""
        truth = self.spelled(said)
        return PhoneErrors(edit_distance(truth, heard), len(truth))


def phone_error_rate(errors: Iterable[PhoneErrors]) -> float:
    """Return all errors over all phones of a set of utterances; nan when there are no phones."""
    total, count = 0, 0
    for each in errors:
        total, count = total + each.errors, count + each.phones
    return total / count if count else math.nan


def matched_phones(truth: Sequence[str], guess: Sequence[str]) -> list[bool]:
    """Return, for each phone of `truth`, whether it matches in one alignment with `guess` of the fewest errors."""
    table = [list(range(len(guess) + 1))]
    for i, phone in enumerate(truth, start=1):
        row = [i]
        for j, other in enumerate(guess, start=1):
            row.append(min(table[-1][j] + 1, row[-1] + 1, table[-1][j - 1] + (phone != other)))
        table.append(row)
    there, i, j = [False] * len(truth), len(truth), len(guess)
    while i and j:
        if table[i][j] == table[i - 1][j - 1] + (truth[i - 1] != guess[j - 1]):
            i, j = i - 1, j - 1
            there[i] = truth[i] == guess[j]
        elif table[i][j] == table[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return there
