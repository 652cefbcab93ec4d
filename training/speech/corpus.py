"""Read the training speech made by `training/speech/synthesize.py`, and print how much there is.

python -m training.speech.corpus --work DIR
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from training.work import DEFAULT_WORK, TrainingError, exit_with_message

SAMPLE_RATE = 22050  # Hz


@dataclass(frozen=True)
class Utterance:
    """One utterance. `times` are the starts of `tokens` in seconds, `samples` is the length."""

    text: str
    tokens: list[str]
    times: list[float]
    speaker: int
    shard: int
    offset: int
    samples: int
    test_sentence: bool
    held_out_speaker: bool
    shard_audio: np.ndarray = field(repr=False, compare=False)

    def audio(self) -> np.ndarray:
        """Return the int16 samples at 22,050 Hz, memory-mapped."""
        return self.shard_audio[self.offset : self.offset + self.samples]

    def waveform(self) -> np.ndarray:
        """Return the samples as float32 in [-1, 1)."""
        return self.audio().astype(np.float32) / np.float32(32768)

    @property
    def for_training(self) -> bool:
        """Whether neither the sentence nor the speaker is held out."""
        return not (self.test_sentence or self.held_out_speaker)


@dataclass(frozen=True)
class Corpus:
    """All utterances of a folder, ordered by shard, and the speakers."""

    utterances: list[Utterance]
    speakers: dict[int, dict[str, Any]]

    @classmethod
    def load(cls, folder: str | Path) -> "Corpus":
        """Read every finished shard of `folder`. Raises TrainingError when there is none."""
        folder = Path(folder)
        indices = sorted(folder.glob("index-*.jsonl"))
        if not indices:
            raise TrainingError(f"No finished shard of training speech in {folder}.")
        speakers = json.loads((folder / "speakers.json").read_text(encoding="utf-8"))
        utterances = [item for index in indices for item in read_shard(index)]
        return cls(utterances, {speaker["id"]: speaker for speaker in speakers})

    @property
    def shards(self) -> list[int]:
        """Shard numbers, ascending."""
        return sorted({item.shard for item in self.utterances})

    def of_shard(self, shard: int) -> list[Utterance]:
        """Return the utterances of one shard, in the order of its audio."""
        return [item for item in self.utterances if item.shard == shard]


def read_shard(index: Path) -> list[Utterance]:
    """Read the utterances of one shard, given the path of its index."""
    audio = np.load(index.with_name(index.name.replace("index", "audio")).with_suffix(".npy"), mmap_mode="r")
    lines = index.read_text(encoding="utf-8").splitlines()
    return [Utterance(**json.loads(line), shard_audio=audio) for line in lines]


def table(corpus: Corpus) -> str:
    """Return a Markdown table of hours, utterances and speakers, for training and held out, by synthesizer."""
    kinds = {
        "training": [item for item in corpus.utterances if item.for_training],
        "held-out speakers": [item for item in corpus.utterances if item.held_out_speaker],
        "held-out sentences, other speakers": [
            item for item in corpus.utterances if item.test_sentence and not item.held_out_speaker
        ],
    }
    lines = ["| | hours | utterances | speakers |", "|---|---|---|---|"]
    for kind, chosen in kinds.items():
        lines.append(_row(f"**{kind}**", chosen))
        for engine in sorted({str(about["engine"]) for about in corpus.speakers.values()}):
            lines.append(_row(engine, [item for item in chosen if corpus.speakers[item.speaker]["engine"] == engine]))
    return "\n".join(lines)


def _row(name: str, utterances: Sequence[Utterance]) -> str:
    hours = sum(item.samples for item in utterances) / SAMPLE_RATE / 3600
    return f"| {name} | {hours:.2f} | {len(utterances):,} | {len({item.speaker for item in utterances})} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    options = parser.parse_args()
    with exit_with_message():
        print(table(Corpus.load(options.work / "data")))


if __name__ == "__main__":
    main()
