"""Makes `data/`, the held-out voices and sentences, with the training's own synthesizers.

    python -m benchmarks.make_evaluation_set

Needs what `make data` needs (Flite, Festival, pyworld, the fortune files). Of the speakers that training
keeps out, those of espeak-ng are left out here as well: the judge does not understand espeak-ng itself, so
nothing could be said of a copy.
"""

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from benchmarks.evaluation_set import DOMAIN, FOLDER, INDEX
from benchmarks.judge import Judge
from benchmarks.words import words
from engine.pronunciation import Lexicon
from training.sentences import held_out_sentences, is_held_out, template_sentences, training_sentences
from training.speakers import Speaker, speakers
from training.synthesize import SAMPLE_RATE, Job, Studio

_SEED = 11  # of no training run: its sentences are of the training's kind, and only by chance the same
_SENTENCES = 5  # a voice
_FORTUNES_SHARE = 4  # one sentence in so many is a quotation, the others are patterns filled in
_TEMPLATES = 120
_DOMAIN_SENTENCES = 12_000
_PAUSE = 0.25  # s, between the two sentences of a reference
_WORDS = range(4, 10)
_REFERENCE = (4.0, 8.0)  # s


def main() -> None:
    """Renders the set anew. The same installation makes the same set."""
    studio = Studio()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.flac"):
        old.unlink()
    sentences = _sentences(studio.lexicon)
    chosen = [speaker for speaker in speakers() if speaker.held_out and speaker.engine != "espeak"]
    entries = [_render(studio, speaker, sentences) for speaker in chosen]
    about = {"sample_rate": SAMPLE_RATE, "made_by": "benchmarks/make_evaluation_set.py", "speakers": entries}
    (FOLDER / INDEX).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    _write_domain(studio.lexicon)
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(entries)} voices, {_SENTENCES * len(entries)} sentences, {size / 1e6:.2f} MB")


def _sentences(lexicon: Lexicon) -> Iterator[str]:
    """Held-out sentences that the judge's dictionary can spell, patterns and quotations mixed, endlessly."""
    judge = Judge.general()
    held_out = held_out_sentences(lexicon, templates=_TEMPLATES)
    kinds = held_out[:_TEMPLATES], held_out[_TEMPLATES:]
    fit = ([text for text in kind if _fits(text, judge)] for kind in kinds)
    patterns, quotations = (itertools.cycle(kind) for kind in fit)
    for number in itertools.count(1):
        yield next(quotations if number % _FORTUNES_SHARE == 0 else patterns)


def _fits(text: str, judge: Judge) -> bool:
    spoken = words(text)
    return len(spoken) in _WORDS and all(judge.knows(word) for word in spoken)


def _render(studio: Studio, speaker: Speaker, sentences: Iterator[str]) -> dict[str, Any]:
    name = f"{speaker.engine}-{speaker.voice.split('_')[0]}-{speaker.id}"
    clips: list[dict[str, str]] = []
    while len(clips) < _SENTENCES:
        text = next(sentences)
        if (samples := _say(studio, speaker, text)) is not None:
            clips.append(_write(f"{name}-{len(clips) + 1}.flac", samples, text))
    teacher = f"{speaker.engine} {speaker.voice}, pitch × {speaker.pitch:.2f}, tract × {speaker.tract:.2f}"
    return {
        "name": name,
        "teacher": teacher,
        "reference": _reference(studio, speaker, name),
        "sentences": clips,
    }


def _reference(studio: Studio, speaker: Speaker, name: str) -> dict[str, str]:
    """Two sentences with a pause between them, as long as a good recording is."""
    texts = (text for text in template_sentences(_SEED + speaker.id) if not is_held_out(text))
    while True:
        pair = list(itertools.islice(texts, 2))
        spoken = [_say(studio, speaker, text) for text in pair]
        if any(samples is None for samples in spoken):
            continue
        pause = np.zeros(int(_PAUSE * SAMPLE_RATE), dtype=np.int16)
        joined = np.concatenate([spoken[0], pause, spoken[1]])
        if _REFERENCE[0] <= len(joined) / SAMPLE_RATE <= _REFERENCE[1]:
            return _write(f"{name}-reference.flac", joined, " ".join(pair))


def _say(studio: Studio, speaker: Speaker, text: str) -> NDArray[np.int16] | None:
    """None when the studio refuses the rendering: too short, too long, or no clear phones."""
    rendered = list(studio.render([Job(text, speaker, True)], random.Random(f"{speaker.id} {text}")))
    return rendered[0].samples if rendered else None


def _write(file: str, samples: NDArray[np.int16], text: str) -> dict[str, str]:
    soundfile.write(FOLDER / file, samples, SAMPLE_RATE, subtype="PCM_16")
    return {"file": file, "text": text}


def _write_domain(lexicon: Lexicon) -> None:
    """Training sentences for the judge's domain model, compressed to the same bytes every time."""
    lines = itertools.islice(training_sentences(_SEED, lexicon), _DOMAIN_SENTENCES)
    packed = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    Path(FOLDER / DOMAIN).write_bytes(packed)


if __name__ == "__main__":
    main()
