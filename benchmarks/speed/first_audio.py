"""Time to first audio by stage, for different cache states of the voice and clip lengths.

    python -m benchmarks.speed.first_audio [--model FOLDER] [--device cpu] [--runs 7] [--cold-runs 3] [--lengths 3 10]

Four cases, each measured from the request to the first samples:

- cold: the engine has just been loaded (loading time not included); the clip is new, and the encoder's weights are
  loaded for it;
- a new clip: the engine is warm, the clip is new;
- a saved voice: its codes are stored, but nothing else is known of it. (The page prepares a voice when it is picked.)
- a known voice: the keys and values of its prompt's prefix are cached too.

The engine has one slot, which spoke another voice before, so nothing else is cached. Except in the cold case, all
graphs are captured before. Stages: `encode` (including
reading and preparing the clip), `queue`, `prefill`, `frames` (of the first chunk) and `decode`. The clips are the
evaluation set's first one, cut or repeated to the given length, with a transcript of proportional length.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks._report import Cell
from benchmarks.engines import loaded, wait_for_frame, wait_until_ready
from benchmarks.evaluation_set import Clip, EvaluationSet
from benchmarks.speed._shared import Table, engine_parser, keep, model_name, spread
from engine.audio import encode_audio
from engine.engine import Engine
from engine.options import SpeakOptions
from engine.voice import Voice
from training.work import exit_with_message

TEXT = "The children are playing in the garden behind the old house."
LENGTHS = (3.0, 10.0, 30.0)
STAGES = ("encode", "queue", "prefill", "frames", "decode")
CASES = ("cold", "a new clip", "a saved voice", "a known voice")

Source = tuple[bytes, str]


@dataclass(frozen=True)
class Run:
    """One request: seconds of each stage, which add up to the time to first audio.

    reused, positions: cached and total positions of the prompt.
    """

    encode: float
    queue: float
    prefill: float
    frames: float
    decode: float
    reused: int
    positions: int

    @property
    def first_audio(self) -> float:
        return self.encode + self.queue + self.prefill + self.frames + self.decode


def reference(clip: Clip, seconds: float, variant: int = 0) -> Source:
    """Make a FLAC clip of the given length, with its approximate transcript.

    Each variant has different faint noise, so that it is a new clip to all caches.
    """
    samples, rate = clip.read()
    wanted = round(seconds * rate)
    times = -(-wanted // len(samples))
    noise = np.random.default_rng(variant).standard_normal(wanted).astype(np.float32)
    longer = np.tile(samples, times)[:wanted] + 0.0005 * noise
    words = clip.text.split() * times
    spoken = words[: max(1, round(len(words) * wanted / (times * len(samples))))]
    return encode_audio(np.clip(longer, -1, 1), rate, "flac"), " ".join(spoken)


def ask(engine: Engine, voice: Voice, *, encode: float = 0.0, seed: int = 0) -> Run:
    """Request speech up to the first chunk, then cancel. Raises RuntimeError when nothing was spoken."""
    speech = engine.speak(TEXT, voice, SpeakOptions(seed=seed))
    for _ in speech:
        speech.cancel()
    if speech.result is None or speech.result.first_audio_timings is None:
        raise RuntimeError("the engine said nothing")
    wait_for_frame()
    return Run(encode=encode, **asdict(speech.result.first_audio_timings))


def ask_for_new_clip(engine: Engine, source: Source, seed: int) -> Run:
    """Encode a clip, then request speech with it."""
    began = time.perf_counter()
    voice = engine.encode_voice("new", [source]).voice
    return ask(engine, voice, encode=time.perf_counter() - began, seed=seed)


class Warm:
    """The cases that need a warm engine."""

    def __init__(self, engine: Engine, other: Voice) -> None:
        self._engine, self._other = engine, other
        ask(engine, other)
        ask(engine, other)  # runs the captured graphs for the first time

    def new_clip(self, source: Source, seed: int) -> Run:
        self._forget()
        return ask_for_new_clip(self._engine, source, seed)

    def saved(self, voice: Voice, seed: int) -> Run:
        self._engine.forget(voice)  # also what was learned from its clip
        self._forget()
        return ask(self._engine, voice, seed=seed)

    def known(self, voice: Voice, seed: int) -> Run:
        """Speak with a voice that was spoken before, but followed by another one in the same slot."""
        ask(self._engine, voice)
        ask(self._engine, self._other)
        return ask(self._engine, voice, seed=seed)

    def _forget(self) -> None:
        """Drop all caches except the other voice's prompt in the slot."""
        ask(self._engine, self._other)
        self._engine._prefixes.clear()


def measure(
    model: str,
    device: str,
    *,
    runs: int,
    cold_runs: int,
    lengths: Sequence[float] = LENGTHS,
    save: Callable[[Mapping[str, Any]], object] = lambda _found: None,
) -> dict[str, Any]:
    """Measure all cases for all lengths. save: called after each length."""
    first, second, *_ = EvaluationSet.load().speakers
    rows = [
        figures("cold", s, [_cold(model, device, first.reference, s, i) for i in range(cold_runs)]) for s in lengths
    ]
    with loaded(model, device, slots=1) as engine:
        wait_until_ready(engine)
        other = engine.encode_voice(second.name, [(second.reference.path, second.reference.text)]).voice
        warm = Warm(engine, other)
        found = {
            "model": model_name(model),
            "device": engine.info.device,
            "graphs": engine.status().graphs,
            "rows": rows,
        }
        for seconds in lengths:
            rows += _warm(warm, engine, first.reference, seconds, runs)
            rows.sort(key=lambda row: (row["reference_s"], CASES.index(row["case"])))
            save(found)
        return found


def _cold(model: str, device: str, clip: Clip, seconds: float, seed: int) -> Run:
    source = reference(clip, seconds)
    with loaded(model, device, slots=1) as engine:
        return ask_for_new_clip(engine, source, seed)


def _warm(warm: Warm, engine: Engine, clip: Clip, seconds: float, runs: int) -> list[dict[str, Any]]:
    """Measure the warm cases in turn, so that load on the machine affects all of them."""
    voice = engine.encode_voice("saved", [reference(clip, seconds)]).voice
    found: dict[str, list[Run]] = {case: [] for case in CASES[1:]}
    for seed in range(1, runs + 1):
        new, saved, known = found.values()
        new.append(warm.new_clip(reference(clip, seconds, seed), seed))
        saved.append(warm.saved(voice, seed))
        known.append(warm.known(voice, seed))
    return [figures(case, seconds, of) for case, of in found.items()]


def figures(case: str, seconds: float, runs: Sequence[Run]) -> dict[str, Any]:
    """Return seconds of each stage and in total, median and worst, and the positions of the last run's prompt."""
    times = {stage: spread(getattr(run, stage) for run in runs) for stage in (*STAGES, "first_audio")}
    return {
        "case": case,
        "reference_s": seconds,
        "runs": len(runs),
        "reused": runs[-1].reused,
        "positions": runs[-1].positions,
        **times,
    }


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    title = f"First audio with {found['model']} on {found['device']}, ms: medians (worst)"
    columns = ["clip, voice", "known of the prompt", *STAGES, "first audio"]
    return Table(title, columns, [_row(of) for of in found["rows"]])


def _row(of: Mapping[str, Any]) -> list[Cell]:
    times = [f"{of[name]['median'] * 1000:.1f} ({of[name]['worst'] * 1000:.1f})" for name in (*STAGES, "first_audio")]
    if of["encode"]["worst"] == 0:
        times[0] = "–"
    return [f"{of['reference_s']:g} s, {of['case']}", f"{of['reused']} of {of['positions']}", *times]


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument("--runs", type=int, default=7)
    made.add_argument("--cold-runs", type=int, default=3, help="each loads the engine anew")
    made.add_argument("--lengths", type=float, nargs="+", default=LENGTHS, help="of the clip, in seconds")
    return made.parse_args()


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    found = measure(
        options.model,
        options.device,
        runs=options.runs,
        cold_runs=options.cold_runs,
        lengths=options.lengths,
        save=partial(keep, "first_audio"),
    )
    table(found).show()


if __name__ == "__main__":
    with exit_with_message():
        main()
