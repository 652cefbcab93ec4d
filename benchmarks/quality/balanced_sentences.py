"""Phonetically balanced sentences that no training has had.

They are ours, in the manner of the Harvard sentences (IEEE, 1969): plain statements with unlikely words, so that
nothing but the sound tells them. Each twenty of them have all phones.
"""

from benchmarks.evaluation_set import FOLDER

FILE = "balanced_sentences.txt"
PER_VOICE = 20


def sentences() -> tuple[str, ...]:
    """All of them."""
    return tuple((FOLDER / FILE).read_text("utf-8").splitlines())


def sentences_of(number: int) -> tuple[str, ...]:
    """The twenty sentences of a voice, by its number: voices take turns."""
    everything = sentences()
    start = number * PER_VOICE % len(everything)
    return everything[start : start + PER_VOICE]
