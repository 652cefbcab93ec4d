"""Held-out voices and sentences for evaluating the bundled model, from `data/`.

Neither the voices (synthesizer voices with changed pitch, vocal tract and tempo) nor the sentences were in training.
Each sentence is included as spoken by its teacher, so that teachers, codec and model are evaluated on the same
sentences.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

FOLDER = Path(__file__).with_name("data")
INDEX, DOMAIN = "index.json", "domain.txt.gz"


@dataclass(frozen=True)
class Clip:
    """A recording on disk and its transcript."""

    path: Path
    text: str

    def read(self) -> tuple[NDArray[np.float32], int]:
        """Read mono samples float32 [n] in [-1, 1], and their rate in Hz."""
        samples, rate = soundfile.read(self.path, dtype="float32")
        return samples, int(rate)


@dataclass(frozen=True)
class Speaker:
    """A held-out voice: its reference clip, and held-out sentences spoken in it.

    `teacher_held_out`: no warp of the teacher was in training.
    """

    name: str
    teacher: str
    reference: Clip
    sentences: tuple[Clip, ...]
    teacher_held_out: bool = False


@dataclass(frozen=True)
class EvaluationSet:
    """Held-out voices, and training sentences for the judge's domain language model."""

    speakers: tuple[Speaker, ...]
    domain: tuple[str, ...]

    @classmethod
    def load(cls) -> "EvaluationSet":
        """Load the set."""
        index = json.loads((FOLDER / INDEX).read_text("utf-8"))
        with gzip.open(FOLDER / DOMAIN, "rt", encoding="utf-8") as lines:
            domain = tuple(line.rstrip("\n") for line in lines)
        return cls(tuple(_speaker(entry) for entry in index["speakers"]), domain)

    def spread(self, count: int | None) -> tuple[Speaker, ...]:
        """Return `count` speakers spread over the set; all of them for None or when there are fewer."""
        total = len(self.speakers)
        count = total if count is None else min(count, total)
        return tuple(self.speakers[at * total // count] for at in range(count))

    def vocabulary(self) -> list[str]:
        """Return the training and test sentences, whose words are the domain model's vocabulary."""
        return [*self.domain, *(clip.text for speaker in self.speakers for clip in speaker.sentences)]


def _speaker(entry: dict[str, object]) -> Speaker:
    match entry:
        case {
            "name": str(name),
            "teacher": str(teacher),
            "held_out_teacher": bool(teacher_held_out),
            "reference": reference,
            "sentences": [*sentences],
        }:
            clips = tuple(_clip(clip) for clip in sentences)
            return Speaker(name, teacher, _clip(reference), clips, teacher_held_out)
    raise ValueError(f"{FOLDER / INDEX} has an entry that is not a speaker: {entry!r}")


def _clip(entry: object) -> Clip:
    match entry:
        case {"file": str(file), "text": str(text)}:
            return Clip(FOLDER / file, text)
    raise ValueError(f"{FOLDER / INDEX} has an entry that is not a clip: {entry!r}")
