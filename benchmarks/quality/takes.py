"""Complete takes of an engine, and statistics of its runs."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.bootstrap import Estimate, estimate, mean
from benchmarks.speed._shared import engine_parser, model_name
from engine.engine import Engine, SpeakOptions
from engine.models.sampling import SamplingOptions
from engine.voice import Voice
from training.whole_take import whole_take

_SAMPLING = {"temperature": float, "top_p": float, "top_k": int}
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
    names = "of the results: BENCHMARK-NAME.json; by default the model's, and BENCHMARK.json for the bundled one"
    made.add_argument("--name", help=names)
    return made


def result_name(benchmark: str, options: argparse.Namespace) -> str:
    """Return the name of a benchmark's results. The published ones, without a suffix, are the bundled model's."""
    suffix = options.name or ("" if options.model == "bundled" else model_name(options.model))
    return f"{benchmark}-{suffix}" if suffix else benchmark


def sampling(options: argparse.Namespace, engine: Engine) -> SamplingOptions:
    """Return the sampling options given to `model_parser`, else the model's defaults. Raises InvalidOption."""
    asked = {name: getattr(options, name) for name in _SAMPLING if getattr(options, name) is not None}
    defaults = {name: getattr(engine.default_options, name) for name in _SAMPLING}
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


def _median(values: Sequence[float]) -> float:
    return float(np.nanmedian(values))
