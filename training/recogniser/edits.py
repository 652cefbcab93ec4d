"""Edit distance."""

from collections.abc import Sequence


def edits(truth: Sequence[str], guess: Sequence[str]) -> int:
    """The Levenshtein distance: the fewest insertions, deletions and substitutions that turn one into the other."""
    row = list(range(len(guess) + 1))
    for i, token in enumerate(truth, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(guess, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (token != other))
    return row[-1]
