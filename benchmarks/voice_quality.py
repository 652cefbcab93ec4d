"""Quality of the bundled model's speech: held-out sentences in held-out voices.

    python -m benchmarks.voice_quality [--model FOLDER] [--only teachers codec speech] [--keep FOLDER]

The same sentences in the same voices three times: as spoken by the teachers, after the codec alone,
and as spoken by the model in the voice cloned from the reference. "Backwards" are the teachers'
recordings played in reverse: sound without words, the worst case for the judges.

A second table has the same figures for the voices whose teacher was held out as well: none of that teacher's voices
was in training.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import soundfile
import torch
import torchaudio.functional as AF

from benchmarks import _report
from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.meter import Measured, Meter, summary
from benchmarks.takes import Run, Samples, model_parser, run_figures, sampling, take
from engine.engine import Engine
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.models.sampling import SamplingOptions
from engine.release.hub import find_release

PARTS = ("teachers", "backwards", "codec", "speech")


@dataclass(frozen=True)
class Utterance:
    """Samples [n] at `rate` Hz in which `speaker` should say what `clip` says."""

    speaker: Speaker
    clip: Clip
    samples: Samples
    rate: int
    copy: bool = False
    run: Run | None = None  # of the model's own


def teachers(data: EvaluationSet) -> Iterator[Utterance]:
    """The recordings themselves."""
    for speaker in data.speakers:
        for clip in speaker.sentences:
            yield Utterance(speaker, clip, *clip.read())


def backwards(data: EvaluationSet) -> Iterator[Utterance]:
    """The recordings in reverse."""
    for spoken in teachers(data):
        yield Utterance(spoken.speaker, spoken.clip, spoken.samples[::-1].copy(), spoken.rate)


def codec_alone(data: EvaluationSet, folder: Path, device: str) -> Iterator[Utterance]:
    """The recordings, encoded and decoded by the codec of a release's folder."""
    path, config = codec_files(folder)
    encoder = load_codec_encoder(path, config, device=device)
    decoder = load_codec_decoder(path, config, device=device)
    for spoken in teachers(data):
        wave = AF.resample(torch.from_numpy(spoken.samples), spoken.rate, config.sample_rate).to(device)
        audio = decoder.decode(encoder.encode(wave[None, None]))[0, 0, : len(wave)]
        yield Utterance(spoken.speaker, spoken.clip, audio.cpu().numpy(), config.sample_rate, copy=True)


def speech(data: EvaluationSet, engine: Engine, options: SamplingOptions) -> Iterator[Utterance]:
    """Speech of the model in voices cloned from the references. Seeds are the utterances' numbers."""
    seed = 0
    for speaker in data.speakers:
        pair = (speaker.reference.path, speaker.reference.text)
        voice = engine.encode_voice(speaker.name, [pair]).voice
        for clip in speaker.sentences:
            samples, run = take(engine, clip.text, voice, seed, options)
            seed += 1
            yield Utterance(speaker, clip, samples, engine.sample_rate, run=run)


def measure(
    part: str, utterances: Iterator[Utterance], meter: Meter, keep: Path | None
) -> tuple[list[Measured], list[Run]]:
    """Measurements of all utterances, and the runs of the model's."""
    measured, runs = [], []
    for number, each in enumerate(utterances):
        copy_of = each.clip if each.copy else None
        found = meter.measure(each.speaker, each.clip.text, each.samples, each.rate, copy_of)
        measured.append(found)
        if each.run:
            runs.append(each.run)
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            soundfile.write(keep / f"{part}-{number:02d}-{each.speaker.name}.wav", each.samples, each.rate)
        print(f"{part:9} {each.speaker.name:14} {each.clip.text} → {found.heard['domain']}", flush=True)
    return measured, runs


def figures(measured: Sequence[Measured], runs: Sequence[Run]) -> dict[str, Any]:
    """The figures of a part, as JSON values; `text` is what the table shows."""
    found = summary(measured) | run_figures(runs)
    return {name: value.json() | {"text": str(value)} for name, value in found.items()}


def _rows(parts: dict[str, dict[str, Any]]) -> list[list[_report.Cell]]:
    names = dict.fromkeys(name for of_part in parts.values() for name in of_part)
    return [[name, *(of_part.get(name, {}).get("text") for of_part in parts.values())] for name in names]


def _parse() -> argparse.Namespace:
    parser = model_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other parts out")
    parser.add_argument("--voices", type=int, help="so many voices alone, for a quick look")
    parser.add_argument("--keep", type=Path, help="write every utterance into this folder")
    parser.add_argument("--name", default="voice_quality", help="of the file in results/")
    return parser.parse_args()


def main() -> None:
    """Measure, print the tables and save the figures."""
    options = _parse()
    everyone = EvaluationSet.load()
    data = EvaluationSet(everyone.spread(options.voices), everyone.domain)
    meter = Meter(everyone)
    engine = Engine.load(options.model, options.device) if "speech" in options.only else None
    sampled = sampling(options, engine) if engine else None
    sources: dict[str, Callable[[], Iterator[Utterance]]] = {
        "teachers": lambda: teachers(data),
        "backwards": lambda: backwards(data),
        "codec": lambda: codec_alone(data, find_release(options.model), options.device),
        "speech": lambda: speech(data, engine, sampled) if engine and sampled else iter(()),
    }
    found = {part: measure(part, sources[part](), meter, options.keep) for part in options.only}
    model = Path(options.model).name  # of a folder, only what it is called: results are published
    count = sum(len(speaker.sentences) for speaker in data.speakers)
    title = f"{model}: {count} held-out sentences in {len(data.speakers)} held-out voices"
    parts = {part: figures(*each) for part, each in found.items()}
    _show(f"{title}, nearest of {len(everyone.speakers)} (95 % intervals over voices)", parts)
    strangers = {speaker.name for speaker in data.speakers if speaker.stranger}
    alone = {part: figures(*_of(strangers, *each)) for part, each in found.items()} if strangers else {}
    _show(f"{model}: of these voices, those whose teacher was held out as well ({len(strangers)})", alone)
    details = {part: ([asdict(each) for each in measured], [asdict(run) for run in runs])
               for part, (measured, runs) in found.items()}  # fmt: skip
    about = {"model": model, "sampling": sampled and asdict(sampled)}
    _report.save(options.name, about | {"figures": parts, "held_out_teacher": alone, "utterances": details})


def _of(voices: set[str], measured: Sequence[Measured], runs: Sequence[Run]) -> tuple[list[Measured], list[Run]]:
    return [each for each in measured if each.voice in voices], [run for run in runs if run.voice in voices]


def _show(title: str, parts: dict[str, dict[str, Any]]) -> None:
    if parts:
        _report.print_table(title, ["", *parts], _rows(parts))


if __name__ == "__main__":
    main()
