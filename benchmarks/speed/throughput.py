"""Concurrent listeners: frames, real-time factors, first audio and underruns for 1, 2, 4, 8, … listeners.

    python -m benchmarks.speed.throughput [--model FOLDER] [--device cpu] [--listeners N …] [--runs 3] [--alone 8]

Each listener is a thread that requests its own text with its own seed, in a saved voice of the evaluation set, and
reads all chunks. All start at the same moment. The engine has one slot per listener, or as many as fit into memory;
further requests queue, and the queueing time counts. For the ratio, the same requests, at most as many as `--alone`,
run one after the other on the same engine, at the beginning of each run. Graphs are captured before the measurements.

A frame counts when its audio has arrived, even if its attempt is abandoned later. Codes are frames times codebooks. The
real-time factor is per listener: seconds until the last chunk divided by seconds of audio. An underrun is a moment at
which a listener that started to play with the first chunk has no audio left. With fewer than a hundred requests, the
99th percentile is the largest value.
"""

import argparse
import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks._report import Cell
from benchmarks.engines import loaded, wait_until_ready
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.speed._shared import Table, engine_parser, keep, model_name, tail
from engine.engine import Engine
from engine.options import SpeakOptions
from engine.serving.device import choose_device
from engine.voice import Voice
from training.work import exit_with_message

CPU_MOST, GPU_MOST = 8, 64
SENTENCES = 3  # per listener
ALONE = 8  # the most requests that run one by one

Save = Callable[[Mapping[str, Any]], object]


@dataclass(frozen=True)
class Request:
    """The request of one listener."""

    text: str
    voice: Voice
    seed: int


@dataclass(frozen=True)
class Take:
    """The result of a request. Times are in seconds: began and ended on one clock, first_audio from the request."""

    began: float
    ended: float
    first_audio: float
    frames: int
    seconds: float
    underruns: int
    stall_seconds: float

    @property
    def real_time_factor(self) -> float:
        return (self.ended - self.began) / self.seconds


def counts(most: int) -> list[int]:
    """Return the powers of two below `most`, and `most`."""
    return [*(2**i for i in range((most - 1).bit_length())), most]


def requests(voices: Sequence[Voice], sentences: Sequence[str], count: int) -> list[Request]:
    """Return `count` different requests, the same on every call."""
    return [
        Request(" ".join(random.Random(i).sample(sentences, SENTENCES)), voices[i % len(voices)], seed=i)
        for i in range(count)
    ]


def listen(engine: Engine, request: Request, together: threading.Barrier) -> Take:
    """Run one request, reading as fast as chunks arrive. Raises RuntimeError when nothing was spoken."""
    together.wait()
    began, first, frames = time.perf_counter(), 0.0, 0
    speech = engine.speak(request.text, request.voice, SpeakOptions(seed=request.seed))
    for chunk in speech:
        first = first or time.perf_counter() - began
        frames += chunk.frames
    ended, result = time.perf_counter(), speech.result
    if result is None or not frames:
        raise RuntimeError("the engine said nothing")
    return Take(began, ended, first, frames, frames / engine.info.frame_rate, result.underruns, result.stall_seconds)


def at_once(engine: Engine, asked: Sequence[Request]) -> list[Take]:
    """Run all requests concurrently, one thread each."""
    together = threading.Barrier(len(asked))
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(lambda request: listen(engine, request, together), asked))


def one_by_one(engine: Engine, asked: Sequence[Request]) -> list[Take]:
    """Run the same requests one after the other."""
    return [at_once(engine, [request])[0] for request in asked]


def speed(takes: Sequence[Take]) -> float:
    """Return frames per second from the first request to the last chunk."""
    return sum(take.frames for take in takes) / (max(t.ended for t in takes) - min(t.began for t in takes))


def speed_alone(takes: Sequence[Take]) -> float:
    """Return frames per second of sequential requests, without the time between them."""
    return sum(take.frames for take in takes) / sum(take.ended - take.began for take in takes)


def figures(runs: Sequence[Sequence[Take]], alone: Sequence[Take], codebooks: int) -> dict[str, Any]:
    """Return the figures of several concurrent runs of the same requests, compared with these requests alone.

    alone: the takes of all sequential runs.
    """
    takes = [take for run in runs for take in run]
    frames, before = statistics.median(map(speed, runs)), speed_alone(alone)
    return {
        "listeners": len(runs[0]),
        "frames_per_second": frames,
        "codes_per_second": frames * codebooks,
        "real_time_factor": tail(take.real_time_factor for take in takes),
        "first_audio_s": tail(take.first_audio for take in takes),
        "underruns": sum(take.underruns for take in takes),
        "starved_s": sum(take.stall_seconds for take in takes),
        "requests": len(takes),
        "alone_frames_per_second": before,
        "to_alone": frames / before,
    }


def measure(
    model: str,
    device: str,
    *,
    listeners: Sequence[int] | None,
    runs: int,
    alone: int = ALONE,
    sentences: Sequence[str] | None = None,
    save: Save = lambda _found: None,
) -> dict[str, Any]:
    """Run all measurements.

    listeners: numbers of listeners, ascending; by default the powers of two up to a number that depends on the device.
    alone: the most requests that run one by one. sentences: to make the texts from; by default those of the evaluation
        set. save: called after each measurement.
    """
    evaluation = EvaluationSet.load()
    known = [clip.text for speaker in evaluation.speakers for clip in speaker.sentences]
    wanted = listeners or counts(GPU_MOST if choose_device(device).type == "cuda" else CPU_MOST)
    with_most = wanted[-1]
    with loaded(model, device, slots=with_most, queue=with_most) as engine:
        wait_until_ready(engine)
        speakers = evaluation.speakers[:with_most]
        voices = [engine.encode_voice(s.name, [(s.reference.path, s.reference.text)]).voice for s in speakers]
        asked = requests(voices, sentences or known, with_most)
        for count in wanted:  # caches the prompts and captures sizes that are not captured in advance
            at_once(engine, asked[:count])
        codebooks = len(voices[0].references[0].codes)
        found: dict[str, Any] = {
            "model": model_name(model),
            "device": engine.info.device,
            "slots": engine.info.slots,
            "codebooks": codebooks,
            "precision": engine.precision,
            "graphs": engine.status().graphs,
        }
        sequential: list[list[Take]] = []
        batches: dict[int, list[list[Take]]] = {count: [] for count in wanted}
        for run in range(1, runs + 1):
            sequential.append(one_by_one(engine, asked[:alone]))
            for count, of in batches.items():
                of.append(at_once(engine, asked[:count]))
                if run == 1 or count == with_most:
                    done = {count: of for count, of in batches.items() if of}
                    save(found | {"runs": run, "alone_runs": run, "rows": rows(done, sequential, codebooks)})
        return found | {"runs": runs, "alone_runs": runs, "rows": rows(batches, sequential, codebooks)}


def rows(
    batches: Mapping[int, Sequence[Sequence[Take]]], sequential: Sequence[Sequence[Take]], codebooks: int
) -> list[dict[str, Any]]:
    """Return the figures of each number of listeners, from its concurrent runs and all sequential runs."""
    return [
        figures(of, [take for run in sequential for take in run[:count]], codebooks) for count, of in batches.items()
    ]


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    title = (
        f"Listeners at once with {found['model']} on {found['device']}, {found['slots']} slots: "
        f"medians (99th percentile), {_runs(found['runs'])}"
    )
    columns = [
        "listeners",
        "frames/s in all",
        "codes/s",
        "to one by one",
        "real-time factor",
        "first audio, ms",
        "underruns",
    ]
    alone = found.get("alone_runs", 1)
    note = f"The requests one by one: {_runs(alone)}, {'in turn with' if alone > 1 else 'before'} the others."
    return Table(title, columns, [_row(of) for of in found["rows"]], [note])


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"


def _row(of: Mapping[str, Any]) -> list[Cell]:
    factor, first = of["real_time_factor"], of["first_audio_s"]
    return [
        of["listeners"],
        f"{of['frames_per_second']:.1f}",
        f"{of['codes_per_second']:,.0f}",
        f"× {of['to_alone']:.2f}",
        f"{factor['median']:.3f} ({factor['p99']:.3f})",
        f"{first['median'] * 1000:.0f} ({first['p99'] * 1000:.0f})",
        f"{of['underruns']} in {of['requests']}, {of['starved_s']:.2f} s",
    ]


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument(
        "--listeners", type=int, nargs="+", help=f"powers of two up to {CPU_MOST}, on a GPU up to {GPU_MOST} by default"
    )
    made.add_argument("--runs", type=int, default=3)
    made.add_argument("--alone", type=int, default=ALONE, help="the most requests that run one by one")
    return made.parse_args()


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    listeners = sorted(set(options.listeners or ())) or None
    save = partial(keep, "throughput")
    found = measure(
        options.model, options.device, listeners=listeners, runs=options.runs, alone=options.alone, save=save
    )
    table(found).show()


if __name__ == "__main__":
    with exit_with_message():
        main()
