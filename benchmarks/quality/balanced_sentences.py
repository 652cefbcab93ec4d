"""Phonetically balanced sentences that were never in training.

They are our own, in the style of the Harvard sentences (IEEE, 1969): plain statements with unlikely words, which can be
recognised only from the sound. Each group of twenty contains all phones.
"""

from benchmarks.evaluation_set import FOLDER

FILE = "balanced_sentences.txt"
PER_VOICE = 20


def sentences() -> tuple[str, ...]:
    """Return all sentences."""
    return tuple((FOLDER / FILE).read_text("utf-8").splitlines())


def sentences_of(number: int) -> tuple[str, ...]:
    """Return the twenty sentences for voice `number`. Groups repeat when there are more voices than groups."""
    everything = sentences()
    start = number * PER_VOICE % len(everything)
    return everything[start : start + PER_VOICE]
