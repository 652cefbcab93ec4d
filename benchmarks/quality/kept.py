"""The folder in which `voice_quality --keep` leaves the utterances of a run, with the results of the same run."""

import errno
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import soundfile

from benchmarks import _report
from benchmarks.quality.utterances import Utterance

RESULTS = "results.json"


def keep_utterances(part: str, spoken: Iterator[Utterance], folder: Path | None) -> Iterator[Utterance]:
    """Yield the utterances unchanged, writing each into `folder` if given."""
    for number, each in enumerate(spoken):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            soundfile.write(folder / f"{part}-{number:02d}-{each.speaker.name}.wav", each.samples, each.rate)
        yield each


def first_utterance(folder: Path, part: str, voice: str) -> Path:
    """Return the file of the voice's first sentence. Raises FileNotFoundError."""
    found = sorted(folder.glob(f"{part}-*-{voice}.wav"))
    if not found:
        raise FileNotFoundError(f"{folder} holds nothing of {part} by {voice}: run voice_quality --keep again.")
    return found[0]


def forget_results(folder: Path) -> None:
    """Delete the results of an earlier run, which are not those of the utterances to come."""
    (folder / RESULTS).unlink(missing_ok=True)


def keep_results(folder: Path, name: str | None, found: Mapping[str, Any]) -> None:
    """Write the results of the run whose utterances are in the folder. name: that of its file in benchmarks/results."""
    _report.write(folder / RESULTS, {"name": name, **found})


def kept_results(folder: Path) -> dict[str, Any]:
    """Return the results of the run whose utterances are in the folder. Raises FileNotFoundError."""
    path = folder / RESULTS
    if not path.is_file():
        missing = "no results of a complete run; run voice_quality --keep again"
        raise FileNotFoundError(errno.ENOENT, missing, str(folder))
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found
