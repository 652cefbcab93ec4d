"""Edit distance."""

from collections.abc import Sequence


def edits(truth: Sequence[str], guess: Sequence[str]) -> int:
    """Return the Levenshtein distance: the least number of insertions, deletions and substitutions."""
    row = list(range(len(guess) + 1))
    for i, token in enumerate(truth, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(guess, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (token != other))
    return row[-1]
