"""Word times: the model's own alignment against that of a phone recogniser.

    python -m benchmarks.quality.word_times [--model FOLDER] [--sentences 5] [--name NAME]

The sample voices speak sentences that were not in training. The recogniser (`training/recogniser/alignment.py`) aligns
the expected phones to the audio alone; takes in which it does not find them are left out. Its frames are 20 ms long,
the model's 46 ms.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import _report
from benchmarks.quality.balanced_sentences import sentences_of
from benchmarks.quality.takes import Samples, model_parser, parse, result_name, sampling, save_results
from benchmarks.speed._shared import model_name
from engine.engine import Engine
from engine.models.sampling import SamplingOptions
from engine.outputs import WordTime
from engine.text.english.pronunciation import PHONES, Lexicon
from engine.voice import Voice
from storage import Storage
from storage.voices.sample_voices import install_samples
from training.recogniser.alignment import Aligner
from training.speech.lexicon import LEXICON
from training.whole_take import whole_take
from training.work import exit_with_message

SEED = 7
Span = tuple[float, float]


def spoken_words(
    engine: Engine, text: str, voice: Voice, sampled: SamplingOptions | None = None
) -> tuple[Samples, list[WordTime]]:
    """Speak a text. Return the take and the word times that the model reports. sampled: by default the model's own."""
    options = replace(engine.info.default_options, **asdict(sampled)) if sampled else engine.info.default_options
    chunks = list(engine.speak(text, voice, replace(options, seed=SEED, word_times=True)))
    return whole_take(chunks), [word for chunk in chunks for word in chunk.words]


def heard_words(aligner: Aligner, lexicon: Lexicon, text: str, take: Samples, rate: int) -> list[Span]:
    """Return the recogniser's times of each word of a text without numbers and signs; empty if the phones differ."""
    tokens = lexicon.phones(text).split()
    words = [list(group) for is_phone, group in groupby(tokens, lambda token: token in PHONES) if is_phone]
    phones = aligner.segments(take, rate, [phone for word in words for phone in word])
    if not phones:
        return []
    ends = [end for _, end in phones][:-1]  # without the final silence
    spans, at = [], 0
    for word in words:
        spans.append((ends[at], ends[at + len(word)]))
        at += len(word)
    return spans


def measure(engine: Engine, voices: Sequence[Voice], each: int, sampled: SamplingOptions) -> dict[str, Any]:
    """Measure the differences of all words' starts and ends, in seconds."""
    aligner, lexicon = Aligner(), Lexicon.load(LEXICON)
    starts: list[float] = []
    ends: list[float] = []
    takes = 0
    for number, voice in enumerate(voices):
        for text in sentences_of(number)[:each]:
            take, said = spoken_words(engine, text, voice, sampled)
            heard = heard_words(aligner, lexicon, text, take, engine.info.sample_rate)
            if len(heard) != len(said):
                continue
            takes += 1
            starts += [abs(word.start - span[0]) for word, span in zip(said, heard, strict=True)]
            ends += [abs(word.end - span[1]) for word, span in zip(said, heard, strict=True)]
    return {
        "takes": takes,
        "of": len(voices) * each,
        "words": len(starts),
        "start": _spread(starts),
        "end": _spread(ends),
    }


def _spread(differences: Sequence[float]) -> dict[str, float]:
    return {f"{share:g} %": round(float(np.percentile(differences, share)), 4) for share in (50, 90, 99)}


def _parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = model_parser(__doc__)
    parser.add_argument("--sentences", type=int, default=5, help="of each voice")
    return parse(parser, arguments)


def main() -> None:
    options = _parse()
    engine = Engine.load(options.model, options.device)
    sampled = sampling(options, engine)
    with TemporaryDirectory() as folder, Storage.open(Path(folder) / "voices.db") as storage:
        install_samples(storage.voices)
        voices = [
            storage.voices.ready(record.id, engine.info.codec_fingerprint, engine.reencode)
            for record in storage.voices.list()
        ]
        found = measure(engine, voices, options.sentences, sampled)
    engine.close()
    rows = [[edge, *(1000 * found[edge][share] for share in found[edge])] for edge in ("start", "end")]
    model = model_name(options.model)
    title = f"{model}: differences of {found['words']} words in {found['takes']} of {found['of']} takes, ms"
    _report.print_table(title, ["edge of words", *found["start"]], rows)
    save_results(result_name("word_times", options), {"model": model, "sampling": asdict(sampled), **found})


if __name__ == "__main__":
    with exit_with_message():
        main()
