"""The voices for the balanced sentences: the sample voices, and held-out voices from low to high.

The teachers' recordings are rendered again in each run, which requires the packages of `make data` (Flite, Festival,
pyworld). The sample voices are cloned from the clips in `assets/samples/`, the others from the references of the
evaluation set. Speech of the sample voices' speakers was in training, of the others not.
"""

import io
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.make_evaluation_set import Voice as HeldOutVoice
from benchmarks.make_evaluation_set import voices
from benchmarks.quality.balanced_sentences import sentences_of
from engine.voice import VOICE_FILE_SUFFIX, Voice
from training.make_samples import FOLDER as SAMPLES
from training.speech.corpus import SAMPLE_RATE
from training.speech.sample_voices import DESIGNS
from training.speech.speakers import WOMEN
from training.speech.speakers import Speaker as TrainingSpeaker
from training.speech.synthesize import CorpusRenderer, Job

HELD_OUT_VOICES = 6
IN_TRAINING, HELD_OUT = "sample voices, in training", "held-out voices"
_BANDS = {"below 130 Hz": (0.0, 130.0), "130 to 190 Hz": (130.0, 190.0), "above 190 Hz": (190.0, 1000.0)}


@dataclass(frozen=True)
class BalancedSet:
    """The voices with their sentences as spoken by the teachers, and the training speaker of each voice by name."""

    data: EvaluationSet
    makers: Mapping[str, TrainingSpeaker]

    def groups(self) -> dict[str, set[str]]:
        """Return groups of voice names: all, by training, by sex, by median F0, and each sample voice alone."""
        everyone = self.makers.items()
        samples = {design.name for design in DESIGNS}
        women = {name for name, maker in everyone if maker.voice in WOMEN}
        found = {
            "all voices": set(self.makers),
            IN_TRAINING: samples,
            HELD_OUT: set(self.makers) - samples,
            "women's voices": women,
            "men's voices": set(self.makers) - women,
        }
        for band, (low, high) in _BANDS.items():
            found[f"voices {band}"] = {name for name, maker in everyone if low <= maker.hertz < high}
        found |= {design.name: {design.name} for design in DESIGNS}
        return {group: names & set(self.makers) for group, names in found.items() if names & set(self.makers)}


def render(
    folder: Path, everyone: EvaluationSet, held_out: int = HELD_OUT_VOICES, *, samples: bool = True
) -> BalancedSet:
    """Render `held_out` of the held-out voices into an empty folder, with `samples` after the sample voices."""
    makers = {design.name: design.speaker for design in DESIGNS} if samples else {}
    references = {name: _sample_reference(folder, name) for name in makers}
    known = {speaker.name: speaker.reference for speaker in everyone.speakers}
    for voice in _low_to_high(held_out):
        makers[voice.name], references[voice.name] = voice.speaker, known[voice.name]
    renderer = CorpusRenderer()
    speakers = tuple(
        Speaker(name, maker.voice, references[name], tuple(_clips(folder, renderer, name, maker, sentences_of(number))))
        for number, (name, maker) in enumerate(makers.items())
    )
    return BalancedSet(EvaluationSet(speakers, ()), makers)


def _low_to_high(count: int) -> list[HeldOutVoice]:
    """Return held-out voices spread over all pitches, including the lowest and the highest."""
    everyone = sorted(voices(), key=lambda voice: voice.speaker.hertz)
    places = np.linspace(0, len(everyone) - 1, min(count, len(everyone))).round().astype(int)
    return [everyone[place] for place in places]


def _sample_reference(folder: Path, name: str) -> Clip:
    """Extract a sample voice's clip and transcript."""
    reference = Voice.from_bytes((SAMPLES / f"{name.lower()}{VOICE_FILE_SUFFIX}").read_bytes()).references[0]
    samples, rate = soundfile.read(io.BytesIO(reference.clip), dtype="int16")
    return Clip(_written(folder / f"{name}-reference.wav", samples, rate), reference.transcript)


def _clips(
    folder: Path, renderer: CorpusRenderer, name: str, maker: TrainingSpeaker, texts: tuple[str, ...]
) -> Iterator[Clip]:
    """Render the sentences with the voice's teacher, omitting those that the renderer rejects."""
    rendered = renderer.render([Job(text, maker, True) for text in texts], random.Random(f"balanced {name}"))
    for number, each in enumerate(rendered, start=1):
        path = _written(folder / f"{name}-{number}.wav", each.samples, SAMPLE_RATE)
        yield Clip(path, each.job.text)


def _written(path: Path, samples: np.ndarray, rate: int) -> Path:
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path
