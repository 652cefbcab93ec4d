"""Intelligibility: word errors of `Whisper`, by groups of voices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bootstrap import Estimate, estimate
from benchmarks.judges.whisper import Whisper
from benchmarks.judges.words import WordErrors, word_error_rate, word_errors
from benchmarks.quality.utterances import Utterance


@dataclass(frozen=True)
class Heard:
    """One utterance of one voice: the spoken and the recognised text."""

    voice: str
    said: str
    heard: str
    errors: WordErrors


def listen(judge: Whisper, utterances: Iterable[Utterance]) -> list[Heard]:
    """Recognise all utterances."""
    found = []
    for each in utterances:
        said, heard = each.clip.text, judge.hear(each.samples, each.rate)
        found.append(Heard(each.speaker.name, said, heard, word_errors(said, heard)))
        print(f"{each.speaker.name:16} {said} → {heard}", flush=True)
    return found


def word_error(heard: Sequence[Heard]) -> Estimate:
    """Return the word error rate with its interval over voices or, when there is only one voice, over utterances."""
    several = len({each.voice for each in heard}) > 1
    return estimate(
        heard,
        lambda chosen: word_error_rate(each.errors for each in chosen),
        group=(lambda each: each.voice) if several else None,
    )


def by_group(heard: Sequence[Heard], groups: Mapping[str, set[str]]) -> dict[str, Estimate]:
    """Return word error rates by group name."""
    return {group: word_error([each for each in heard if each.voice in names]) for group, names in groups.items()}
