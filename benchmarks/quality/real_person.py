"""Balanced sentences spoken by the model with clips of real people as references.

    python -m benchmarks.quality.real_person [--model FOLDER] [--keep FOLDER]

The clips come from Debian packages (named in `PEOPLE`) and are not part of this repository. They are telephone prompts,
an audiobook, a recogniser test and a loudspeaker test; none was recorded for cloning.

The bundled model was trained on synthesizers only, so similarity to a person is for information only. Its targets: the
person's pitch within 2 semitones, a word error rate of 0.35, and never noise or silence.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from benchmarks import _report
from benchmarks.bootstrap import mean
from benchmarks.judges import pitch, sound
from benchmarks.judges.mos import OpinionScores, opinion_scores
from benchmarks.judges.phones import PhoneErrors, PhoneJudge, phone_error_rate
from benchmarks.judges.similarity import SpeakerEncoder
from benchmarks.judges.whisper import Whisper
from benchmarks.judges.words import WordErrors, word_error_rate, word_errors
from benchmarks.quality.balanced_sentences import sentences_of
from benchmarks.quality.takes import Run, Samples, model_parser, parse, result_name, sampling, save_results, take
from benchmarks.speed._shared import model_name
from engine.engine import Engine
from engine.models.sampling import SamplingOptions
from engine.voice import Voice
from training.work import exit_with_message

_PAUSE = 0.2  # s, between joined clips


@dataclass(frozen=True)
class Person:
    """A person's clips in a folder of a Debian package, each with its transcript."""

    name: str
    package: str
    folder: Path
    clips: tuple[tuple[str, str], ...]

    def missing(self) -> bool:
        """Return whether the package is not installed or lacks a clip."""
        return not all((self.folder / file).is_file() for file, _ in self.clips)

    def reference(self) -> tuple[NDArray[np.float32], int, str]:
        """Join the clips with short pauses. Return samples [n], their rate in Hz and the transcript."""
        read = [soundfile.read(self.folder / file, dtype="float32") for file, _ in self.clips]
        rate = int(read[0][1])
        pause = np.zeros(int(_PAUSE * rate), dtype=np.float32)
        pieces = [piece for samples, _ in read for piece in (samples, pause)]
        return np.concatenate(pieces[:-1]), rate, " ".join(text for _, text in self.clips)


_POCKETSPHINX = Path("/usr/share/pocketsphinx/test/data")
_BOOK = "sense_and_sensibility_01_austen_64kb"
PEOPLE = (
    Person(
        "telephone prompts",
        "asterisk-core-sounds-en-wav",
        Path("/usr/share/asterisk/sounds/en_US_f_Allison"),
        (
            ("agent-pass.wav", "Please enter your password followed by the pound key."),
            ("conf-placeintoconf.wav", "You will now be placed into the conference."),
        ),
    ),
    Person(
        "audiobook",
        "pocketsphinx-testdata",
        _POCKETSPHINX / "librivox",
        (
            (f"{_BOOK}-0880.wav", "He was not an ill disposed young man."),
            (f"{_BOOK}-0930.wav", "He might even have been made amiable himself."),
        ),
    ),
    Person(
        "playing cards",
        "pocketsphinx-testdata",
        _POCKETSPHINX / "cards",
        (
            ("001.wav", "Ten of clubs."),
            ("003.wav", "Seven of clubs."),
            ("005.wav", "Eight of spades, four of clubs, seven of hearts."),
        ),
    ),
    Person(
        "loudspeakers",
        "alsa-utils",
        Path("/usr/share/sounds/alsa"),
        (
            ("Front_Center.wav", "Front center."),
            ("Front_Left.wav", "Front left."),
            ("Front_Right.wav", "Front right."),
            ("Rear_Left.wav", "Rear left."),
            ("Rear_Right.wav", "Rear right."),
        ),
    ),
)


@dataclass(frozen=True)
class Heard:
    """One sentence in a person's voice. pitch: median F0 of the clip and of the sentence, in Hz. level: in dBFS."""

    said: str
    heard: str
    errors: WordErrors
    phone_errors: PhoneErrors
    pitch: pitch.Pitch
    level: float
    flatness: float
    similarity: float
    scores: OpinionScores
    run: Run


class SentenceMeter:
    """Meter of sentences. Not thread-safe."""

    def __init__(self) -> None:
        self._words = Whisper()
        self._phones, self._encoder = PhoneJudge(), SpeakerEncoder()

    def vector(self, samples: Samples, rate: int) -> NDArray[np.float32]:
        """Return the speaker embedding; zeros for silence."""
        try:
            return self._encoder.embed(samples, rate)
        except ValueError:
            return np.zeros(256, dtype=np.float32)

    def measure(self, said: str, take: tuple[Samples, int, Run], person: NDArray[np.float32], f0: float) -> Heard:
        """Measure a take of `said` (samples [n], rate, run) against a person's embedding and median F0."""
        samples, rate, run = take
        heard = self._words.hear(samples, rate)
        return Heard(
            said=said,
            heard=heard,
            errors=word_errors(said, heard),
            phone_errors=self._phones.errors(said, self._phones.hear(samples, rate)),
            pitch=(f0, pitch.median(pitch.track(samples, rate))),
            level=sound.level(samples),
            flatness=sound.flatness(samples, rate),
            similarity=float(self.vector(samples, rate) @ person),
            scores=opinion_scores(samples, rate),
            run=run,
        )


def takes(
    person: Person, engine: Engine, texts: Sequence[str], options: SamplingOptions
) -> Iterator[tuple[str, tuple[Samples, int, Run]]]:
    """Speak the texts in a person's voice, from the unprocessed clip."""
    samples, rate, said = person.reference()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reference.wav"
        soundfile.write(path, samples, rate, subtype="PCM_16")
        voice: Voice = engine.encode_voice(person.name, [(path, said)]).voice
    for seed, text in enumerate(texts):
        spoken, run = take(engine, text, voice, seed, options)
        yield text, (spoken, engine.info.sample_rate, run)


def figures(all_heard: list[Heard]) -> dict[str, float]:
    """Return a person's figures by their names in the table."""
    known = [each.pitch[1] for each in all_heard if math.isfinite(each.pitch[1])]
    wanted, spoken = all_heard[0].pitch[0], float(np.median(known)) if known else math.nan
    return {
        "F0 of the clip, Hz": wanted,
        "F0 of the speech, Hz": spoken,
        "apart, semitones": 12 * abs(math.log2(spoken / wanted)),
        "the farthest sentence, semitones": max((12 * abs(math.log2(f0 / wanted)) for f0 in known), default=math.nan),
        "softest sentence, dBFS": min(each.level for each in all_heard),
        "flattest sentence (white noise .56)": max(each.flatness for each in all_heard),
        "word error, Whisper tiny.en": word_error_rate(each.errors for each in all_heard),
        "phone error, no language model": phone_error_rate(each.phone_errors for each in all_heard),
        "speaker similarity to the clip": mean([each.similarity for each in all_heard]),
        "sound quality, DNSMOS P.835, speech alone": mean([each.scores.signal for each in all_heard]),
        "sound quality, DNSMOS P.808": mean([each.scores.p808 for each in all_heard]),
        "runs that end properly": mean([each.run.stop_reason == "end" for each in all_heard]),
    }


def _parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = model_parser(__doc__)
    parser.add_argument("--keep", type=Path, help="write references and sentences into this folder")
    return parse(parser, arguments)


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    if wanted := sorted({person.package for person in PEOPLE if person.missing()}):
        sys.exit(f"The clips come from Debian packages that are not installed: apt-get install {' '.join(wanted)}")
    texts = sentences_of(0)
    engine, meter = Engine.load(options.model, options.device), SentenceMeter()
    heard = {person.name: _measure(person, engine, meter, texts, options) for person in PEOPLE}
    table = {name: figures(of_person) for name, of_person in heard.items()}
    model = model_name(options.model)
    rows: list[list[_report.Cell]] = [
        [name, *(of_person[name] for of_person in table.values())] for name in next(iter(table.values()))
    ]
    _report.print_table(f"{model}: {len(texts)} balanced sentences in voices of real people", ["", *table], rows)
    details = {name: [asdict(each) for each in of_person] for name, of_person in heard.items()}
    save_results(
        result_name("real_person", options),
        {
            "model": model,
            "sampling": asdict(sampling(options, engine)),
            "packages": {person.name: person.package for person in PEOPLE},
            "figures": table,
            "utterances": details,
        },
    )


def _measure(
    person: Person, engine: Engine, meter: SentenceMeter, texts: Sequence[str], options: argparse.Namespace
) -> list[Heard]:
    samples, rate, _ = person.reference()
    vector, f0 = meter.vector(samples, rate), pitch.median(pitch.track(samples, rate))
    found = []
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        soundfile.write(options.keep / f"{person.name}.wav", samples, rate)
    for text, spoken in takes(person, engine, texts, sampling(options, engine)):
        found.append(meter.measure(text, spoken, vector, f0))
        print(f"{person.name:18} {text} → {found[-1].heard}", flush=True)
        if options.keep:
            soundfile.write(options.keep / f"{person.name}-{len(found)}.wav", *spoken[:2])
    return found


if __name__ == "__main__":
    with exit_with_message():
        main()
