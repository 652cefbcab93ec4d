"""Quality of the bundled model's speech: intelligibility, and held-out sentences in held-out voices.

    python -m benchmarks.quality.voice_quality [--model FOLDER] [--only teachers codec speech] [--voices N]
                                               [--codec FOLDER] [--keep FOLDER] [--name NAME]

The same sentences in the same voices are measured three times: as spoken by the teachers, after the codec alone, and as
spoken by the model in the voice cloned from the reference. "Backwards" are the teachers' recordings played in reverse:
sound without words, the worst case for the judges.

The first table has the word errors of a recogniser that was trained on neither our voices nor our sentences, by groups
of voices (`balanced_voices.py`). The second has all measurements of held-out sentences of the same kind as the training
sentences. The third has the same measurements for voices whose teacher was held out as well, so that none of the
teacher's voices was in training.

The results of a part (`--only`, `--voices`), with another codec or other sampling, are saved only if --name is given,
because the published ones are of the whole.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import _report
from benchmarks.bootstrap import Estimate
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.judges.whisper import Whisper
from benchmarks.quality import utterances
from benchmarks.quality.balanced_sentences import PER_VOICE
from benchmarks.quality.intelligibility import by_group, listen
from benchmarks.quality.kept import forget_results, keep_results, keep_utterances
from benchmarks.quality.meter import Measured, Meter, summary
from benchmarks.quality.takes import Run, model_parser, parse, result_name, run_figures, sampling, save_results
from benchmarks.quality.utterances import Utterance
from benchmarks.speed._shared import model_name
from engine.engine import Engine
from engine.families.s2.codec import codec_files
from engine.models.sampling import SamplingOptions
from engine.release.hub import find_release
from training.work import exit_with_message

PARTS = ("teachers", "backwards", "codec", "speech")
Figures = dict[str, dict[str, Any]]


class Subject:
    """The release to measure. It yields the utterances of its parts for any set of voices and sentences."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path = options.codec or find_release(options.model)
        self.device: str = options.device
        self.parts: Sequence[str] = options.only
        if "codec" in self.parts:
            codec_files(self.folder)  # raises before hours of other parts
        self.engine = Engine.load(options.model, options.device) if "speech" in self.parts else None
        self.sampling: SamplingOptions | None = sampling(options, self.engine) if self.engine else None

    def spoken(self, part: str, data: EvaluationSet) -> Iterator[Utterance]:
        """Return the utterances of a part."""
        if part == "speech" and self.engine and self.sampling:
            return utterances.speech(data, self.engine, self.sampling)
        if part == "codec":
            return utterances.codec_alone(data, self.folder, self.device)
        return (utterances.backwards if part == "backwards" else utterances.teachers)(data)


def measure(part: str, spoken: Iterator[Utterance], meter: Meter) -> tuple[list[Measured], list[Run]]:
    """Measure all utterances. Return the measurements, and the runs of the model's utterances."""
    measured, runs = [], []
    for each in spoken:
        found = meter.measure(each.speaker, each.clip.text, each.samples, each.rate, each.clip if each.copy else None)
        measured.append(found)
        if each.run:
            runs.append(each.run)
        print(f"{part:9} {each.speaker.name:14} {each.clip.text} → {found.heard['domain']}", flush=True)
    return measured, runs


def figures(measured: Sequence[Measured], runs: Sequence[Run]) -> dict[str, Any]:
    """Return the figures of a part as JSON values; `text` is shown in the table."""
    return _json(summary(measured) | run_figures(runs))


def _json(found: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: value.json() | {"text": str(value)} for name, value in found.items()}


def _rows(parts: Figures) -> list[list[_report.Cell]]:
    names = dict.fromkeys(name for of_part in parts.values() for name in of_part)
    return [[name, *(of_part.get(name, {}).get("text") for of_part in parts.values())] for name in names]


def _parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = model_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other parts out")
    parser.add_argument("--voices", type=int, help="so many held-out voices, without the sample voices")
    parser.add_argument(
        "--codec", type=Path, help="folder of another codec for the part codec, such as DIR/codec of training"
    )
    parser.add_argument("--keep", type=Path, help="write every utterance and the results into this folder")
    return parse(parser, arguments)


def save(found: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Save the results beside the kept utterances, and as a file of benchmarks/results if they are whole or named."""
    name = result_name("voice_quality", options)
    if options.keep:
        keep_results(options.keep, name, found)
    save_results(name, found)


def main() -> None:
    """Measure, print the tables and save the figures."""
    options = _parse()
    if options.keep:
        forget_results(options.keep)
    everyone = EvaluationSet.load()
    subject = Subject(options)
    model = model_name(options.model)
    codec = model_name(options.codec or options.model)
    about = {"model": model, "codec": codec, "sampling": subject.sampling and asdict(subject.sampling)}
    named = model if options.codec is None else f"{model}, codec of {options.codec}"
    intelligibility = _intelligibility(subject, everyone, named, options)
    in_domain = _in_domain(subject, everyone, named, options)
    save(about | intelligibility | in_domain, options)


def _intelligibility(
    subject: Subject, everyone: EvaluationSet, model: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Measure Whisper's word errors on balanced sentences."""
    from benchmarks.quality import balanced_voices  # needs pyworld, which is built from source

    judge = Whisper()
    count = balanced_voices.HELD_OUT_VOICES if options.voices is None else options.voices
    keep = options.keep and options.keep / "balanced"
    with tempfile.TemporaryDirectory() as folder:
        chosen = balanced_voices.render(Path(folder), everyone, count, samples=options.voices is None)
        listened = [part for part in subject.parts if part != "backwards"]
        heard = {
            part: listen(judge, keep_utterances(part, subject.spoken(part, chosen.data), keep)) for part in listened
        }
    parts = {part: _json(by_group(of_part, chosen.groups())) for part, of_part in heard.items()}
    title = f"{model}: word error, Whisper tiny.en on balanced sentences, {PER_VOICE} a voice"
    _show(f"{title} (95 % intervals over voices; of one voice, over sentences)", parts)
    return {"understood": parts, "heard": {part: [asdict(each) for each in found] for part, found in heard.items()}}


def _in_domain(subject: Subject, everyone: EvaluationSet, model: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure held-out sentences of the same kind as the training sentences."""
    data, meter = EvaluationSet(everyone.spread(options.voices), everyone.domain), Meter(everyone)
    found = {
        part: measure(part, keep_utterances(part, subject.spoken(part, data), options.keep), meter)
        for part in subject.parts
    }
    count = sum(len(speaker.sentences) for speaker in data.speakers)
    title = f"{model}: {count} held-out sentences in {len(data.speakers)} held-out voices"
    parts = {part: figures(*each) for part, each in found.items()}
    _show(f"{title}, nearest of {len(everyone.speakers)} (95 % intervals over voices)", parts)
    held_out = {speaker.name for speaker in data.speakers if speaker.teacher_held_out}
    alone = {part: figures(*_of(held_out, *each)) for part, each in found.items()} if held_out else {}
    _show(f"{model}: of these voices, those whose teacher was held out as well ({len(held_out)})", alone)
    details = {part: ([asdict(each) for each in measured], [asdict(run) for run in runs])
               for part, (measured, runs) in found.items()}  # fmt: skip
    return {"figures": parts, "held_out_teacher": alone, "utterances": details}


def _of(voices: set[str], measured: Sequence[Measured], runs: Sequence[Run]) -> tuple[list[Measured], list[Run]]:
    return [each for each in measured if each.voice in voices], [run for run in runs if run.voice in voices]


def _show(title: str, parts: Figures) -> None:
    if parts:
        _report.print_table(title, ["", *parts], _rows(parts))


if __name__ == "__main__":
    with exit_with_message():
        main()
