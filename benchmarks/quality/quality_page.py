"""Write docs/voice/index.html: the figures of voice_quality, spectrograms, and audio.

    python -m benchmarks.quality.voice_quality --keep FOLDER
    python -m benchmarks.quality.quality_page FOLDER [--before FOLDER]

The page shows the measurements and audio of that run, which are both in its folder. If these are not the published
results, because of another model, a name or missing parts, the page is FOLDER/page/index.html. --before adds the speech
of an earlier release, kept in the same way with `voice_quality --model RELEASE --only speech`.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import soundfile
import torch
import torchaudio
from numpy.typing import NDArray

from benchmarks import _report
from benchmarks.evaluation_set import EvaluationSet, Speaker
from benchmarks.quality.kept import first_utterance, kept_results
from training.work import exit_with_message

PUBLISHED = "voice_quality"  # the name of the results that the page in docs/ shows
PAGE = Path(__file__).parents[2] / "docs" / "voice" / "index.html"
_TEMPLATE = Path(__file__).parents[1] / "pages" / "voice.html"
_EVERY, _ORDINAL = 3, "third"  # every third voice is shown
_TITLES = {"teachers": "Teacher", "codec": "Codec alone", "speech": "Cloned"}
_BEFORE = "Before"
_SOUND = ".mp3"
_BANDS, _CEILING, _RANGE = 96, 8000.0, 70.0  # mel bands, Hz, dB below the loudest


@dataclass(frozen=True)
class Take:
    """Audio and its spectrogram, as paths relative to the page, with a caption."""

    title: str
    sound: str
    picture: str
    caption: str


@dataclass(frozen=True)
class Example:
    """One sentence in one voice, spoken by all systems. teacher_held_out: see `Speaker`."""

    said: str
    teacher: str
    teacher_held_out: bool
    takes: tuple[Take, ...]


def write_page(
    kept: Path, data: EvaluationSet, found: Mapping[str, Any], page: Path = PAGE, before: Path | None = None
) -> None:
    """Write the page and its audio files, and delete those of an earlier page when all new ones are written.

    Args:
        kept: the folder with the utterances of voice_quality.
        found: the saved results of voice_quality.
        before: the folder with the utterances of an earlier release.

    Raises FileNotFoundError when an utterance is missing in `kept` or `before`.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=page.parent) as folder:
        examples = list(_examples(kept, data, found["utterances"], Path(folder), before))
        for old in (*page.parent.glob(f"*{_SOUND}"), *page.parent.glob("*.png")):
            old.unlink()
        for new in Path(folder).iterdir():
            new.replace(page.parent / new.name)
    parts = list(found["figures"])
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(_TEMPLATE.read_text("utf-8"))
    text = template.render(
        machine=_report.describe(found["machine"]),
        sentences=sum(len(speaker.sentences) for speaker in data.speakers),
        voices=len(data.speakers),
        parts=parts,
        rows=list(_rows(found["figures"])),
        listened=list(found["understood"]),
        understood=list(_rows(found["understood"])),
        ordinal=_ORDINAL,
        examples=examples,
        compares=before is not None,
    )
    page.write_text(text + "\n", "utf-8")


def _rows(figures: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str | None]]:
    names = dict.fromkeys(name for of_part in figures.values() for name in of_part)
    for name in names:
        yield [name, *(of_part.get(name, {}).get("text") for of_part in figures.values())]


def _examples(
    kept: Path, data: EvaluationSet, utterances: Mapping[str, Any], folder: Path, before: Path | None
) -> Iterator[Example]:
    for speaker in data.speakers[::_EVERY]:
        clip = speaker.sentences[0]
        takes = [_take("Reference", speaker.reference.path, folder, f"Says: “{speaker.reference.text}”", speaker)]
        for part in (part for part in _TITLES if part in utterances):
            heard = next(each["heard"]["domain"] for each in utterances[part][0] if each["voice"] == speaker.name)
            source = first_utterance(kept, part, speaker.name)
            takes.append(_take(_TITLES[part], source, folder, f"Heard: “{heard}”", speaker))
        if before:
            source = first_utterance(before, "speech", speaker.name)
            takes.append(_take(_BEFORE, source, folder, "By an earlier release.", speaker))
        yield Example(clip.text, speaker.teacher, speaker.teacher_held_out, tuple(takes))


def _take(title: str, source: Path, folder: Path, caption: str, speaker: Speaker) -> Take:
    name = f"{speaker.name}-{title.split()[0].lower()}"
    samples, rate = soundfile.read(source, dtype="float32")
    sound, picture = folder / f"{name}{_SOUND}", folder / f"{name}.png"
    soundfile.write(sound, samples, rate)
    draw(samples, rate, picture)
    return Take(title, sound.name, picture.name, caption)


def draw(samples: NDArray[np.float32], rate: int, path: Path) -> None:
    """Draw a log-mel spectrogram of mono samples [n] without axes: time to the right, frequency upwards."""
    from matplotlib import image

    mel = torchaudio.transforms.MelSpectrogram(
        rate, n_fft=1024, hop_length=rate // 150, n_mels=_BANDS, f_max=_CEILING, power=2.0
    )
    decibels = 10 * mel(torch.from_numpy(samples)).clamp(1e-10).log10()
    image.imsave(path, (decibels - decibels.max()).numpy(), cmap="magma", vmin=-_RANGE, vmax=0, origin="lower")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page from the folder of a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path, help="where voice_quality --keep wrote its utterances")
    parser.add_argument("--before", type=Path, help="where voice_quality --keep wrote an earlier release's utterances")
    options = parser.parse_args(arguments)
    found = kept_results(options.kept)
    page = PAGE if found["name"] == PUBLISHED else options.kept / "page" / PAGE.name
    write_page(options.kept, EvaluationSet.load(), found, page, options.before)
    print(f"Wrote {page}.")


if __name__ == "__main__":
    with exit_with_message():
        main()
