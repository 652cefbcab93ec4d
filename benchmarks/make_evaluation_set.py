"""Make the held-out voices and sentences in `data/`, with the synthesizers of the training speech.

    python -m benchmarks.make_evaluation_set

Requires the same packages as `make data` (Flite, Festival, pyworld, the fortune files). The voices are

- eight held-out warps of teachers whose other warps were in training,
- four voices of the held-out teacher, and
- eight held-out warps drawn with another seed, which were never in training.

espeak-ng's voices are excluded because pocketsphinx does not recognise espeak-ng itself, so copies cannot be
evaluated. Kokoro's voices are excluded because the set is older than they are.
"""

import argparse
import gzip
import itertools
import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from benchmarks.evaluation_set import DOMAIN, FOLDER, INDEX
from benchmarks.judges.sphinx import SphinxRecogniser
from benchmarks.judges.words import words
from engine.text.english.pronunciation import Lexicon
from training.speech.corpus import SAMPLE_RATE
from training.speech.sentences import held_out_sentences, is_held_out, template_sentences, training_sentences
from training.speech.speakers import HELD_OUT_TEACHER, Speaker, speakers
from training.speech.synthesize import CorpusRenderer, Job

_SEED = 11  # not used for training; gives the same kinds of sentences, identical only by chance
_SENTENCES = 3  # per voice
_FORTUNES_SHARE = 4  # one sentence in this many is a quotation, the others come from templates
_TEMPLATES = 120
_OTHER_SEED = "evaluation"  # of the warps that were never in training
_DOMAIN_SENTENCES = 12_000
_PAUSE = 0.25  # s, between the two sentences of a reference
_WORDS = range(4, 10)
_REFERENCE = (4.0, 8.0)  # s


def main() -> None:
    """Render the set, and replace the old one once it is complete. The same installation makes the same set."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        count = render_all(Path(fresh))
        for old in FOLDER.glob("*.flac"):
            old.unlink()
        shutil.copytree(fresh, FOLDER, dirs_exist_ok=True)
    size = sum(path.stat().st_size for path in FOLDER.glob("*.flac"))
    print(f"{count} voices, {_SENTENCES * count} sentences, {size / 1e6:.2f} MB")


def render_all(folder: Path) -> int:
    """Render the set into an empty folder. Return the number of voices."""
    renderer = CorpusRenderer()
    sentences = _sentences(renderer.lexicon)
    entries = [_render(folder, renderer, voice, sentences) for voice in voices()]
    about = {"sample_rate": SAMPLE_RATE, "made_by": "benchmarks/make_evaluation_set.py", "speakers": entries}
    (folder / INDEX).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    _write_domain(folder, renderer.lexicon)
    return len(entries)


@dataclass(frozen=True)
class Voice:
    """A held-out speaker, with a name and a number that are unique in the set."""

    name: str
    number: int
    speaker: Speaker

    @property
    def teacher(self) -> str:
        """Description of the synthesizer's voice and its main warps."""
        speaker = self.speaker
        return f"{speaker.engine} {speaker.voice}, pitch × {speaker.pitch:.2f}, tract × {speaker.tract:.2f}"


def voices() -> list[Voice]:
    """Return all voices of the set. Names of the other seed's speakers have an `e` before their number."""
    ours, others = _held_out(speakers()), _held_out(speakers(_OTHER_SEED))
    with_held_out_teacher = [speaker for speaker in ours if speaker.voice == HELD_OUT_TEACHER]
    plain, *warped = sorted(with_held_out_teacher, key=lambda speaker: speaker.id)
    chosen = [speaker for speaker in ours if speaker not in with_held_out_teacher]
    fresh = [speaker for speaker in others if speaker.voice != HELD_OUT_TEACHER]
    found = [Voice(_name(each, ""), each.id, each) for each in (*chosen, plain, *warped[::3])]
    return found + [Voice(_name(each, "e"), 1000 + each.id, each) for each in fresh]


def _held_out(everyone: list[Speaker]) -> list[Speaker]:
    return [speaker for speaker in everyone if speaker.held_out and speaker.engine in ("flite", "festival")]


def _name(speaker: Speaker, seed: str) -> str:
    return f"{speaker.engine}-{speaker.voice.split('_')[0]}-{seed}{speaker.id}"


def _sentences(lexicon: Lexicon) -> Iterator[str]:
    """Yield held-out sentences of words in the judge's dictionary endlessly, templates and quotations mixed."""
    judge = SphinxRecogniser.general()
    held_out = held_out_sentences(lexicon, templates=_TEMPLATES)
    kinds = held_out[:_TEMPLATES], held_out[_TEMPLATES:]
    fit = ([text for text in kind if _fits(text, judge)] for kind in kinds)
    patterns, quotations = (itertools.cycle(kind) for kind in fit)
    for number in itertools.count(1):
        yield next(quotations if number % _FORTUNES_SHARE == 0 else patterns)


def _fits(text: str, judge: SphinxRecogniser) -> bool:
    spoken = words(text)
    return len(spoken) in _WORDS and all(judge.knows(word) for word in spoken)


def _render(folder: Path, renderer: CorpusRenderer, voice: Voice, sentences: Iterator[str]) -> dict[str, Any]:
    clips: list[dict[str, str]] = []
    while len(clips) < _SENTENCES:
        text = next(sentences)
        if (samples := _say(renderer, voice, text)) is not None:
            clips.append(_write(folder / f"{voice.name}-{len(clips) + 1}.flac", samples, text))
    return {
        "name": voice.name,
        "teacher": voice.teacher,
        "held_out_teacher": voice.speaker.voice == HELD_OUT_TEACHER,
        "reference": _reference(folder, renderer, voice),
        "sentences": clips,
    }


def _reference(folder: Path, renderer: CorpusRenderer, voice: Voice) -> dict[str, str]:
    """Write a reference of two sentences with a pause between them, 4 to 8 s long. Return its entry."""
    texts = (text for text in template_sentences(_SEED + voice.number) if not is_held_out(text))
    while True:
        pair = list(itertools.islice(texts, 2))
        spoken = [_say(renderer, voice, text) for text in pair]
        if any(samples is None for samples in spoken):
            continue
        pause = np.zeros(int(_PAUSE * SAMPLE_RATE), dtype=np.int16)
        joined = np.concatenate([spoken[0], pause, spoken[1]])
        if _REFERENCE[0] <= len(joined) / SAMPLE_RATE <= _REFERENCE[1]:
            return _write(folder / f"{voice.name}-reference.flac", joined, " ".join(pair))


def _say(renderer: CorpusRenderer, voice: Voice, text: str) -> NDArray[np.int16] | None:
    """Render a sentence. Return None when the renderer rejects it as too short, too long or with too few phones."""
    rendered = list(renderer.render([Job(text, voice.speaker, True)], random.Random(f"{voice.number} {text}")))
    return rendered[0].samples if rendered else None


def _write(path: Path, samples: NDArray[np.int16], text: str) -> dict[str, str]:
    soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
    return {"file": path.name, "text": text}


def _write_domain(folder: Path, lexicon: Lexicon) -> None:
    """Write training sentences for the judge's domain model, compressed reproducibly."""
    lines = itertools.islice(training_sentences(_SEED, lexicon), _DOMAIN_SENTENCES)
    packed = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    (folder / DOMAIN).write_bytes(packed)


if __name__ == "__main__":
    main()
