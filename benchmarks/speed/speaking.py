"""Real-time factor and time to first audio.

    python -m benchmarks.speed.speaking [--model FOLDER] [--device cpu] [--runs 7]

The voice is saved: its reference is encoded before the runs. The first run of each text is a warm-up and is not
counted. Encoding is measured with clips of the same length, each with other faint noise, because the engine does not
encode a clip that it knows again.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks._report import Cell
from benchmarks.engines import loaded, wait_until_ready
from benchmarks.evaluation_set import Clip, EvaluationSet
from benchmarks.memory.process import process_mib
from benchmarks.speed._shared import Table, engine_parser, keep, model_name, spread
from benchmarks.speed.first_audio import reference
from engine.engine import Engine
from engine.options import SpeakOptions
from training.work import exit_with_message

TEXTS = {
    "a sentence": "The children are playing in the garden behind the old house.",
    "a paragraph": (
        "My brother works in a small shop near the river. Every morning he opens the front door and "
        "puts three green apples on the wooden table. He likes the quiet of the early hours. When the "
        "first visitors come, he tells them about the weather, and they tell him about their children."
    ),
}


@dataclass(frozen=True)
class Run:
    """One request: seconds of audio, seconds until the first and the last chunk, and the stop reason."""

    seconds: float
    first_audio: float
    elapsed: float
    stop_reason: str

    @property
    def real_time_factor(self) -> float:
        """Seconds of computation per second of audio."""
        return self.elapsed / self.seconds


def run(engine: Engine, text: str, voice: Any, seed: int) -> Run:
    """Speak once, timed from outside the engine."""
    began, first = time.perf_counter(), 0.0
    speech = engine.speak(text, voice, SpeakOptions(seed=seed))
    for _ in speech:
        first = first or time.perf_counter() - began
    elapsed = time.perf_counter() - began
    if speech.result is None or not speech.result.seconds:
        raise RuntimeError("the engine said nothing")
    return Run(speech.result.seconds, first, elapsed, speech.result.stop_reason)


def encoding_times(engine: Engine, clip: Clip, count: int) -> list[float]:
    """Encode `count` clips of the clip's length, each new to the engine. Return the seconds of each."""
    samples, rate = clip.read()
    found = []
    for variant in range(1, count + 1):
        source = reference(clip, len(samples) / rate, variant)
        began = time.perf_counter()
        engine.encode_voice("new", [source])
        found.append(time.perf_counter() - began)
    return found


def figures(runs: list[Run]) -> dict[str, Any]:
    """Return medians and worst values."""
    factors, firsts = [each.real_time_factor for each in runs], [each.first_audio for each in runs]
    return {
        "audio_s": round(statistics.median(each.seconds for each in runs), 2),
        "first_audio_ms": round(statistics.median(firsts) * 1000),
        "first_audio_worst_ms": round(max(firsts) * 1000),
        "real_time_factor": round(statistics.median(factors), 3),
        "real_time_factor_worst": round(max(factors), 3),
        "ended": f"{sum(each.stop_reason == 'end' for each in runs)} of {len(runs)}",
    }


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument("--runs", type=int, default=7)
    return made.parse_args()


def main() -> None:
    """Measure as the options say."""
    measure(_parse())


def measure(options: argparse.Namespace) -> None:
    """Measure, print the table and save the figures."""
    speaker = EvaluationSet.load().speakers[0]
    clip = speaker.reference
    began = time.perf_counter()
    with loaded(options.model, options.device) as engine:
        loading = time.perf_counter() - began
        wait_until_ready(engine)
        began = time.perf_counter()
        voice = engine.encode_voice(speaker.name, [(clip.path, clip.text)]).voice
        first_encoding = time.perf_counter() - began
        encoding = spread(encoding_times(engine, clip, options.runs))
        found = {name: _runs(engine, text, voice, options.runs) for name, text in TEXTS.items()}
        memory = process_mib("VmHWM")
        stages = {
            "load_s": round(loading, 2),
            "encode_voice_first_s": round(first_encoding, 2),
            "encode_new_clip_s": {name: round(value, 3) for name, value in encoding.items()},
            "reference_s": round(len(clip.read()[0]) / clip.read()[1], 1),
            "peak_memory_mib": round(memory),
        }
        model = model_name(options.model)
        result = {"model": model, "device": engine.info.device, "stages": stages, "speaking": found}
        table(result).show()
        keep("speaking", result)


def _runs(engine: Engine, text: str, voice: Any, count: int) -> dict[str, Any]:
    run(engine, text, voice, seed=0)
    return figures([run(engine, text, voice, seed) for seed in range(1, count + 1)])


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    stages = found["stages"]
    rows: list[list[Cell]] = [
        [
            name,
            f"{of['audio_s']} s",
            f"{of['first_audio_ms']} ms ({of['first_audio_worst_ms']})",
            f"{of['real_time_factor']} ({of['real_time_factor_worst']})",
            of["ended"],
        ]
        for name, of in found["speaking"].items()
    ]
    first, others = stages["encode_voice_first_s"], stages.get("encode_new_clip_s")
    note = (
        f"Loading took {stages['load_s']} s and the first voice, from {stages['reference_s']} s of clip, {first} s; "
        f"peak memory was {stages['peak_memory_mib']} MiB."
    )
    if others:
        note += f" Voices from further clips of this length took {others['median']} s ({others['worst']})."
    columns = ["", "audio", "first audio", "real-time factor", "ended properly"]
    return Table(f"{found['model']} on {found['device']}, medians (worst)", columns, rows, [note])


if __name__ == "__main__":
    with exit_with_message():
        main()
