"""How the bundled model's runs end, for many short sentences, texts of one word and one long text.

    python -m benchmarks.quality.endings [--model FOLDER] [--runs 200] [--words 120] [--readings 3]

Each run speaks a held-out sentence in a held-out voice; no pair is used twice. The engine speaks a
segment again, once, if it looped, did not end or was too short; such a run is counted even if the second attempt
succeeded.

A text of one word may be spoken twice. Whisper hears it with half a second of silence on both sides, without which it
misses first sounds.

A sentence of the long text counts as spoken when at least half of its phones are recognised in place. For unrelated
speech, a quarter to a third match by chance. Spoken by a teacher (Flite's slt), whether recognised as a whole or by
sentence, the text has a word error rate of 0.13 with the general model and 0.22 with the bigrams, which cover less of
it, and a phone error rate of 0.11.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from benchmarks import _report
from benchmarks.bootstrap import Estimate, estimate, mean
from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.judges.phones import PhoneJudge, matched_phones
from benchmarks.judges.sphinx import SphinxRecogniser
from benchmarks.judges.whisper import Whisper
from benchmarks.judges.words import word_error_rate, word_errors, words
from benchmarks.quality.takes import (
    Run,
    Samples,
    model_parser,
    parse,
    result_name,
    run_figures,
    sampling,
    save_results,
    take,
)
from benchmarks.speed._shared import model_name
from engine.engine import Engine
from engine.models.sampling import SamplingOptions
from engine.voice import Voice
from training.work import exit_with_message

TEXT = (
    "My brother works in a small old shop near the river. Every morning he opens the door at seven o'clock. "
    "He puts three green apples on the wooden table. Then he makes a cup of coffee and reads the letters. "
    "The first visitors come after breakfast. They talk about the weather and the news. "
    "A tall woman asks him for a warm coat. An old man wants to see the yellow map. "
    "My brother is never in a hurry. He says that a good question needs a quiet answer. "
    "At noon he closes the shop and walks to the park. His dog runs behind the birds until it is tired. "
    "In the afternoon the children come home from school. They look at the pictures on the wall. "
    "One of them, a clever girl, wants to be a doctor. My brother shows her a heavy book about the human heart. "
    "When it is dark, he counts the money and writes a few lines. Then he locks the door and goes home. "
    "The street is empty and the moon is large. He can hear quiet music from an open window. "
    "Tomorrow he will do the same, and he is happy with that."
)
WORDS = (
    "Yes No Hello Thanks Stop House Great Test What Listen Sorry Please Water Morning Maybe Coffee Welcome Never Seven "
    "Garden"
).split()
SILENCE = 0.5  # seconds before and after a word
SPOKEN = 0.5  # least share of a sentence's phones


@dataclass(frozen=True)
class Reading:
    """The long text in one voice. sentences: the share of each one's phones that are recognised in place."""

    voice: str
    run: Run
    seconds: float
    word_errors: dict[str, float]
    phone_error: float
    sentences: tuple[float, ...]

    @property
    def missing(self) -> int:
        """Number of sentences that were not spoken."""
        return sum(share < SPOKEN for share in self.sentences)


def pairs(data: EvaluationSet, count: int) -> Iterator[tuple[Speaker, Clip]]:
    """Yield pairs of voice and sentence. Voices alternate, each with a new sentence until it has spoken all."""
    sentences = [clip for speaker in data.speakers for clip in speaker.sentences]
    for number in range(count):
        turn, at = divmod(number, len(data.speakers))
        yield data.speakers[at], sentences[(at * len(sentences) // len(data.speakers) + 1 + turn) % len(sentences)]


def sentences_of(text: str) -> list[str]:
    """Split a plain text into its sentences."""
    return [sentence.strip() + "." for sentence in text.split(".") if sentence.strip()]


def read(
    text: str, samples: Samples, rate: int, run: Run, judges: tuple[SphinxRecogniser, ...], phones: PhoneJudge
) -> Reading:
    """Recognise `text` in samples [n] at `rate` Hz."""
    heard = phones.hear(samples, rate)
    there = iter(matched_phones(phones.spelled(text), heard))
    shares = []
    for sentence in sentences_of(text):
        own = [next(there) for _ in phones.spelled(sentence)]
        shares.append(round(sum(own) / len(own), 3))
    errors = phones.errors(text, heard)
    return Reading(
        voice=run.voice,
        run=run,
        seconds=round(len(samples) / rate, 2),
        word_errors={judge.name: word_error_rate([word_errors(text, judge.hear(samples, rate))]) for judge in judges},
        phone_error=errors.errors / errors.phones,
        sentences=tuple(shares),
    )


@dataclass(frozen=True)
class SingleWord:
    """A text of one word in one voice, and what was heard."""

    voice: str
    said: str
    heard: str

    @property
    def is_repeated(self) -> bool:
        """Whether the word was heard more than once."""
        return words(self.heard).count(self.said.lower()) > 1


class Voices:
    """The evaluation set's voices, each cloned on first use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, Voice] = {}

    def __getitem__(self, speaker: Speaker) -> Voice:
        if speaker.name not in self._known:
            clip = speaker.reference
            self._known[speaker.name] = self._engine.encode_voice(speaker.name, [(clip.path, clip.text)]).voice
        return self._known[speaker.name]


def short_runs(data: EvaluationSet, engine: Engine, count: int, options: SamplingOptions) -> list[tuple[str, Run]]:
    """Speak short sentences. Return texts and runs."""
    voices, done = Voices(engine), []
    for seed, (speaker, clip) in enumerate(pairs(data, count)):
        _, run = take(engine, clip.text, voices[speaker], seed, options)
        done.append((clip.text, run))
        if run.stop_reason != "end" or run.attempts > 1:
            print(f"run {seed}, {speaker.name}: {clip.text} → {run.stop_reason}, attempt {run.attempts}", flush=True)
    return done


def single_words(data: EvaluationSet, engine: Engine, count: int, options: SamplingOptions) -> list[SingleWord]:
    """Speak texts of one word, every voice in turn."""
    voices, judge, done = Voices(engine), Whisper(), []
    quiet = np.zeros(round(SILENCE * engine.info.sample_rate), np.float32)
    for seed in range(count):
        turn, at = divmod(seed, len(data.speakers))
        speaker, word = data.speakers[at], WORDS[(at + turn * 7) % len(WORDS)]
        samples, _ = take(engine, f"{word}.", voices[speaker], seed, options)
        heard = judge.hear(np.concatenate((quiet, samples, quiet)), engine.info.sample_rate)
        done.append(SingleWord(speaker.name, word, heard))
    return done


def word_figures(found: Sequence[SingleWord]) -> dict[str, Estimate]:
    """Return figures of texts of one word, with intervals over voices; empty without texts."""
    if not found:
        return {}

    def share(test: Callable[[SingleWord], bool]) -> Estimate:
        return estimate(found, lambda chosen: mean([test(word) for word in chosen]), lambda word: word.voice)

    return {
        "single words that are heard as said": share(lambda word: words(word.heard) == [word.said.lower()]),
        "single words that are heard more than once": share(lambda word: word.is_repeated),
    }


def readings(
    data: EvaluationSet, engine: Engine, count: int, options: SamplingOptions, keep: Path | None
) -> list[Reading]:
    """Read the long text in several voices."""
    judges = (SphinxRecogniser.domain(data.domain, [*data.vocabulary(), TEXT]), SphinxRecogniser.general())
    voices, phones, done = Voices(engine), PhoneJudge(), []
    for seed, speaker in enumerate(data.spread(count)):
        samples, run = take(engine, TEXT, voices[speaker], seed, options)
        done.append(read(TEXT, samples, engine.info.sample_rate, run, judges, phones))
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            soundfile.write(keep / f"reading-{speaker.name}.wav", samples, engine.info.sample_rate)
    return done


def _parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = model_parser(__doc__)
    parser.add_argument("--runs", type=int, default=200, help="short sentences")
    parser.add_argument("--words", type=int, default=120, help="texts of one word")
    parser.add_argument("--readings", type=int, default=3, help="voices that read the long text")
    parser.add_argument("--keep", type=Path, help="write the readings into this folder")
    return parse(parser, arguments)


def main() -> None:
    """Measure, print the tables and save the figures."""
    options = _parse()
    data, engine = EvaluationSet.load(), Engine.load(options.model, options.device)
    sampled = sampling(options, engine)
    model = model_name(options.model)
    short = short_runs(data, engine, options.runs, sampled)
    figures = run_figures([run for _, run in short])
    if short:
        rows: list[list[_report.Cell]] = [[name, str(value)] for name, value in figures.items()]
        _report.print_table(f"{model}: {len(short)} short runs (95 % intervals over voices)", ["", "runs"], rows)
    single = single_words(data, engine, options.words, sampled)
    single_figures = word_figures(single)
    if single:
        rows = [[name, str(value)] for name, value in single_figures.items()]
        _report.print_table(f"{model}: {len(single)} texts of one word", ["", "share"], rows)
    long = readings(data, engine, options.readings, sampled, options.keep)
    if long:
        title = f"{model}: a text of {len(words(TEXT))} words in {len(sentences_of(TEXT))} sentences"
        _report.print_table(title, ["", *(reading.voice for reading in long)], _rows(long))
    save_results(
        result_name("endings", options),
        {
            "model": model,
            "sampling": asdict(sampled),
            "figures": {name: value.json() for name, value in (figures | single_figures).items()},
            "runs": [{"said": said} | asdict(run) for said, run in short],
            "single_words": [asdict(word) for word in single],
            "readings": [asdict(reading) | {"missing": reading.missing} for reading in long],
        },
    )


def _rows(long: list[Reading]) -> list[list[_report.Cell]]:
    rows: dict[str, Any] = {
        "ended": [reading.run.stop_reason for reading in long],
        "attempts at its worst segment": [reading.run.attempts for reading in long],
        "seconds": [reading.seconds for reading in long],
        "sentences missing": [reading.missing for reading in long],
        "the worst sentence's phones found": [min(reading.sentences) for reading in long],
        "word error, pocketsphinx with bigrams of the training's sentences": [r.word_errors["domain"] for r in long],
        "word error, pocketsphinx with its general model": [r.word_errors["general"] for r in long],
        "phone error, no language model": [reading.phone_error for reading in long],
        "real-time factor": [reading.run.real_time_factor for reading in long],
    }
    return [[name, *cells] for name, cells in rows.items()]


if __name__ == "__main__":
    with exit_with_message():
        main()
