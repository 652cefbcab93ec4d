"""What the bundled model's speech is worth: held-out sentences in held-out voices.

    python -m benchmarks.voice_quality [--model FOLDER] [--only teachers codec speech] [--keep FOLDER]

The same sentences in the same voices three times: as the teachers said them, as the codec alone gives that
back, and as the model says them in the voice cloned from the reference. "Backwards" are the teachers'
recordings played in reverse: what the judge makes of sound that holds no words, so the worst that can be
had.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
import torchaudio.functional as AF

from benchmarks import _report
from benchmarks.bootstrap import estimate, mean
from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.meter import Measured, Meter, Samples, summary
from engine.checkpoint import find_release
from engine.codec.checkpoint import codec_files, load_codec_decoder, load_codec_encoder
from engine.engine import Engine, SpeakOptions

PARTS = ("teachers", "backwards", "codec", "speech")


@dataclass(frozen=True)
class Utterance:
    """Samples [n] at `rate` Hz in which `speaker` should say what `clip` says."""

    speaker: Speaker
    clip: Clip
    samples: Samples
    rate: int
    copy: bool = False
    run: dict[str, Any] | None = None  # of the model's own: how it ended, how fast it was


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


def speech(data: EvaluationSet, engine: Engine) -> Iterator[Utterance]:
    """What the model says, in voices cloned from the references. Seeds are the utterances' numbers."""
    seed = 0
    for speaker in data.speakers:
        pair = (speaker.reference.path, speaker.reference.text)
        voice = engine.encode_voice(speaker.name, [pair]).voice
        for clip in speaker.sentences:
            samples, run = _speak(engine, clip.text, voice, seed)
            seed += 1
            yield Utterance(speaker, clip, samples, engine.sample_rate, run=run)


def _speak(engine: Engine, text: str, voice: Any, seed: int) -> tuple[Samples, dict[str, Any]]:
    take = np.zeros(0, dtype=np.float32)
    spoken = engine.speak(text, voice, SpeakOptions(seed=seed))
    for chunk in spoken:
        take = np.concatenate([take[: chunk.start], chunk.samples])
    result = spoken.result
    if result is None:
        raise RuntimeError("the engine ended without a result")
    return take, {
        "stop_reason": result.stop_reason,
        "attempts": max(segment.attempts for segment in result.segments),
        "real_time_factor": round(result.real_time_factor, 4),
        "first_audio": result.first_audio,
    }


def measure(
    part: str, utterances: Iterator[Utterance], meter: Meter, keep: Path | None
) -> tuple[list[Measured], list[dict[str, Any]]]:
    """Every utterance measured, and the runs of those that the model made."""
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


def figures(measured: Sequence[Measured], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a part, as JSON values; `text` is what the table shows."""
    found = summary(measured)
    if runs:
        found["runs that end properly"] = estimate([float(run["stop_reason"] == "end") for run in runs], mean)
        found["real-time factor"] = estimate([run["real_time_factor"] for run in runs], _median)
        found["first audio, s"] = estimate([run["first_audio"] or np.nan for run in runs], _median)
    return {name: value.json() | {"text": str(value)} for name, value in found.items()}


def _median(values: Sequence[float]) -> float:
    return float(np.nanmedian(values))


def _rows(parts: dict[str, dict[str, Any]]) -> list[list[_report.Cell]]:
    names = dict.fromkeys(name for of_part in parts.values() for name in of_part)
    return [[name, *(of_part.get(name, {}).get("text") for of_part in parts.values())] for name in names]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled", help="a release: bundled, a folder or a Hub id")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other parts out")
    parser.add_argument("--voices", type=int, help="the first so many voices alone, for a quick look")
    parser.add_argument("--keep", type=Path, help="write every utterance into this folder")
    parser.add_argument("--name", default="voice_quality", help="of the file in results/")
    return parser.parse_args()


def main() -> None:
    """Measures, prints the table and keeps the figures."""
    options = _parse()
    data = EvaluationSet.load()
    data = EvaluationSet(data.speakers[: options.voices], data.domain)
    meter = Meter(data)
    sources: dict[str, Callable[[], Iterator[Utterance]]] = {
        "teachers": lambda: teachers(data),
        "backwards": lambda: backwards(data),
        "codec": lambda: codec_alone(data, find_release(options.model), options.device),
        "speech": lambda: speech(data, Engine.load(options.model, options.device)),
    }
    parts, details = {}, {}
    for part in options.only:
        measured, runs = measure(part, sources[part](), meter, options.keep)
        parts[part] = figures(measured, runs)
        details[part] = [asdict(each) for each in measured], runs
    count = sum(len(speaker.sentences) for speaker in data.speakers)
    model = Path(options.model).name  # of a folder, only what it is called: results are published
    title = f"{model}: {count} held-out sentences in {len(data.speakers)} held-out voices"
    _report.print_table(f"{title} (95 % intervals over voices)", ["", *parts], _rows(parts))
    _report.save(options.name, {"model": model, "figures": parts, "utterances": details})


if __name__ == "__main__":
    main()
