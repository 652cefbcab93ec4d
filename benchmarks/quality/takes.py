"""Complete takes of an engine, and statistics of its runs."""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import _report
from benchmarks.bootstrap import Estimate, estimate, mean
from benchmarks.speed._shared import engine_parser, model_name
from engine.engine import Engine
from engine.models.sampling import SamplingOptions
from engine.options import SpeakOptions
from engine.voice import Voice
from training.whole_take import whole_take

_SAMPLING = {"temperature": float, "top_p": float, "top_k": int}
_NOT_MEASURED = ("model", "device", "name", "keep")  # options that say neither what is measured nor how it is spoken
Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Run:
    """Outcome of a run. attempts: the most of any segment. first_audio: seconds, None when there was no audio."""

    voice: str
    stop_reason: str
    attempts: int
    real_time_factor: float
    first_audio: float | None


def take(engine: Engine, text: str, voice: Voice, seed: int, sampling: SamplingOptions) -> tuple[Samples, Run]:
    """Speak a text. Return samples [n] at the engine's rate, where retried segments replace their first attempts."""
    options = SpeakOptions(sampling.temperature, sampling.top_p, sampling.top_k, seed)
    speech = engine.speak(text, voice, options)
    whole = whole_take(speech)
    result = speech.result
    if result is None:
        raise RuntimeError("the engine ended without a result")
    attempts = max(segment.attempts for segment in result.segments)
    factor = round(result.real_time_factor, 4)
    return whole, Run(voice.name, result.stop_reason, attempts, factor, result.first_audio)


def model_parser(description: str | None) -> argparse.ArgumentParser:
    """Create a parser with the options of benchmarks of a model's speech: model, device, sampling and --name."""
    made = engine_parser(description, device="cpu")
    for name, kind in _SAMPLING.items():
        made.add_argument("--" + name.replace("_", "-"), type=kind, help="default: the model's own")
    names = (
        "of the results: BENCHMARK-NAME.json; by default the model's, and BENCHMARK.json for the bundled one. "
        "Needed with other options than --model, --device and --keep"
    )
    made.add_argument("--name", help=names)
    return made


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options of a `model_parser`. `whole` says whether all is measured, with the default sampling."""
    options = parser.parse_args(arguments)
    chosen = {name: value for name, value in vars(options).items() if name not in _NOT_MEASURED}
    options.whole = all(_same(value, parser.get_default(name)) for name, value in chosen.items())
    return options


def result_name(benchmark: str, options: argparse.Namespace) -> str | None:
    """Return the name of a benchmark's results; None, for not saving them, if they are not whole and --name is missing.

    The published ones, without a suffix, are the bundled model's. options: from `parse`.
    """
    if not (options.name or options.whole):
        return None
    suffix = options.name or ("" if options.model == "bundled" else model_name(options.model))
    return f"{benchmark}-{suffix}" if suffix else benchmark


def save_results(name: str | None, found: Mapping[str, Any]) -> None:
    """Save results by their name from `result_name`."""
    if name:
        _report.save(name, found)
    else:
        print("\nNot saved in benchmarks/results, because an option differs from its default: give it a --name.")


def sampling(options: argparse.Namespace, engine: Engine) -> SamplingOptions:
    """Return the sampling options given to `model_parser`, else the model's defaults. Raises InvalidOption."""
    asked = {name: getattr(options, name) for name in _SAMPLING if getattr(options, name) is not None}
    defaults = {name: getattr(engine.info.default_options, name) for name in _SAMPLING}
    return SamplingOptions(**{**defaults, **asked})


def run_figures(runs: Sequence[Run]) -> dict[str, Estimate]:
    """Return figures of the runs by their names in the tables, with intervals over voices; empty without runs."""
    if not runs:
        return {}

    def of(value: Callable[[Run], float], statistic: Callable[[Sequence[float]], float]) -> Estimate:
        return estimate(runs, lambda chosen: statistic([value(run) for run in chosen]), lambda run: run.voice)

    return {
        "runs that end properly": of(lambda run: run.stop_reason == "end", mean),
        "runs in which a segment was spoken again": of(lambda run: run.attempts > 1, mean),
        "real-time factor": of(lambda run: run.real_time_factor, _median),
        "first audio, s": of(lambda run: run.first_audio or math.nan, _median),
    }


def _same(value: object, default: object) -> bool:
    """Return whether an option has its default value. The order of several values does not matter."""
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return set(value) == set(default)
    return value == default


def _median(values: Sequence[float]) -> float:
    return float(np.nanmedian(values))
