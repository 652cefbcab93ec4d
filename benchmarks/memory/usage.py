"""Memory by part, peak memory while loading, and memory during continuous speaking.

    python -m benchmarks.memory.usage [--model FOLDER] [--device cpu] [--minutes 3] [--listeners 2]

The parts are counted from the engine's tensors. Each of the two measurements runs in a new process. `loading` reads the
memory before and after loading, and its peak. `speaking` simulates listeners that request one text after the other in
changing voices, and samples the memory every few seconds. Memory is flat when the median of the last quarter is at most
2 % above that of the first. `--minutes 60` runs for an hour. Process memory includes mapped file pages; on a GPU, the
device memory allocated by PyTorch is reported as well.
"""

import argparse
import itertools
import json
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks._report import Cell, common_threads, torch_threads
from benchmarks.child_process import run_module
from benchmarks.engines import loaded
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.memory.process import process_mib
from benchmarks.speed._shared import Table, engine_parser, keep, model_name
from engine.engine import Engine
from engine.options import SpeakOptions
from engine.serving.memory import held_bytes
from engine.voice import Voice
from training.work import exit_with_message

MIB = 2**20
EVERY = 5.0  # seconds between two samples
FLAT = 0.02


def device_mib(device: str, *, most: bool = False) -> float | None:
    """Return MiB allocated by PyTorch on a GPU, now or at the peak; None on a CPU."""
    if not device.startswith("cuda"):
        return None
    return (torch.cuda.max_memory_allocated(device) if most else torch.cuda.memory_allocated(device)) / MIB


def parts(engine: Engine) -> dict[str, float]:
    """Return MiB of each part, from its tensors, including the current prefix cache.

    Loads the encoder view if necessary.
    """
    model, slots, batches = engine._model, engine._runner._slots, engine._pipeline.codec_worker._batches
    on_host = getattr(model.slow, "host_embeddings", None)
    kept = {
        "slow": held_bytes(model.slow),
        "fast": held_bytes(model.fast),
        "encoder": held_bytes(engine._conditioner._encoder._view()),
        "decoder": held_bytes(batches._decoder),
        "decoder_states": batches._states.nbytes(),
        "kv_per_slot": slots.cache.buffer.nbytes // slots.count,
        "kv": slots.cache.buffer.nbytes,
        "prefixes": engine._prefixes.nbytes[0],
        "prefixes_on_host": engine._prefixes.nbytes[1],
        "embeddings_on_host": 0 if on_host is None else on_host.nbytes,
    }
    return {name: count / MIB for name, count in kept.items()}


def voices(engine: Engine) -> list[Voice]:
    """Encode the voices of the evaluation set."""
    speakers = EvaluationSet.load().speakers
    return [engine.encode_voice(s.name, [(s.reference.path, s.reference.text)]).voice for s in speakers]


def loading(model: str, device: str) -> dict[str, Any]:
    """Measure memory before and after `Engine.load`, and of the engine's parts. Must run in a new process."""
    before = process_mib("VmRSS")
    with loaded(model, device) as engine:
        found: dict[str, Any] = {
            "device": engine.info.device,
            "before_mib": before,
            "loaded_mib": process_mib("VmRSS"),
            "peak_mib": process_mib("VmHWM"),
            "device_loaded_mib": device_mib(engine.info.device),
            "device_peak_mib": device_mib(engine.info.device, most=True),
        }
        known = voices(engine)
        for voice in known:
            for _ in (speech := engine.speak("Yes.", voice, SpeakOptions(seed=1))):
                speech.cancel()
        return {
            **found,
            "threads": torch_threads(),
            "slots": engine.info.slots,
            "positions": engine.status().positions,
            "precision": engine.status().precision,
            "voices": len(known),
            "parts": parts(engine),
        }


@dataclass
class Talk:
    """Totals of all listeners; thread-safe."""

    requests: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seconds: float) -> None:
        with self.lock:
            self.requests += 1
            self.seconds += seconds


def converse(engine: Engine, wanted: Iterator[tuple[str, Voice, int]], talk: Talk, over: threading.Event) -> None:
    """Simulate one listener that requests text after text until `over` is set."""
    while not over.is_set():
        with talk.lock:
            text, voice, seed = next(wanted)
        speech = engine.speak(text, voice, SpeakOptions(seed=seed))
        for _ in speech:
            if over.is_set():
                speech.cancel()
        if speech.result is not None:
            talk.add(speech.result.seconds)


def speaking(
    model: str, device: str, *, minutes: float, listeners: int, every: float = EVERY, texts: Sequence[str] = ()
) -> dict[str, Any]:
    """Measure memory during continuous speaking. Must run in a new process. texts: replace the evaluation set's."""
    with loaded(model, device) as engine:
        return _speaking(engine, minutes, listeners, every, texts)


def _speaking(engine: Engine, minutes: float, listeners: int, every: float, texts: Sequence[str]) -> dict[str, Any]:
    talk, over = Talk(), threading.Event()
    said = texts or [clip.text for speaker in EvaluationSet.load().speakers for clip in speaker.sentences]
    # 60 sentences and 20 voices: shift the voices in each round, so that every voice eventually speaks every sentence.
    known = voices(engine)
    wanted = ((said[i % len(said)], known[(i + i // len(said)) % len(known)], i) for i in itertools.count())
    for voice in known:
        list(engine.speak(said[0], voice, SpeakOptions(seed=0)))
    threads = [threading.Thread(target=converse, args=(engine, wanted, talk, over)) for _ in range(listeners)]
    try:
        for thread in threads:
            thread.start()
        looks = _watch(engine.info.device, 60 * minutes, every)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    found: dict[str, Any] = {"threads": torch_threads(), "minutes": minutes, "listeners": listeners, "every_s": every}
    found |= {"requests": talk.requests, "audio_s": round(talk.seconds, 1)}
    return found | {name: quarters(values) for name, values in looks.items() if values}


def _watch(device: str, seconds: float, every: float) -> dict[str, list[float]]:
    """Sample the memory of the process, and of the GPU if any, for `seconds`, but at least four times."""
    process, own = list[float](), list[float]()
    for _ in range(max(4, round(seconds / every))):
        time.sleep(every)
        process.append(round(process_mib("VmRSS"), 2))
        if (allocated := device_mib(device)) is not None:
            own.append(round(allocated, 2))
    return {"process": process, "on_device": own}


def quarters(values: Sequence[float]) -> dict[str, Any]:
    """Return the medians of the first and last quarter of at least four samples, in MiB, and whether they are flat."""
    quarter = max(1, len(values) // 4)
    first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
    flat = last <= first * (1 + FLAT)
    return {"first_mib": first, "last_mib": last, "growth_mib": last - first, "flat": flat, "mib": list(values)}


def in_new_process(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run `loading` or `speaking` in a new process and return its result."""
    arguments = ["--task", task, "--model", options.model, "--device", options.device]
    arguments += ["--minutes", str(options.minutes), "--listeners", str(options.listeners)]
    found: dict[str, Any] = run_module("benchmarks.memory.usage", *arguments)
    return found


NAMES = {
    "slow": "Slow AR",
    "fast": "Fast AR",
    "encoder": "codec, encoder view",
    "decoder": "codec, decoder view",
    "decoder_states": "codec, states of all turns",
    "kv_per_slot": "keys and values, one slot",
    "kv": "keys and values, all slots",
    "prefixes": "voices' prompts kept",
    "prefixes_on_host": "voices' prompts kept, host memory",
    "embeddings_on_host": "embeddings of text, host memory",
}


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    load, talk = found["loading"], found["speaking"]
    title = (
        f"Memory of {found['model']} on {found['device']} in {load['precision']}: {load['slots']} slots of "
        f"{load['positions']} positions, {load['voices']} voices known"
    )
    rows = [*_part_rows(load), *_process_rows(load), *_speaking_rows(talk)]
    held = [talk[name] for name in ("process", "on_device") if name in talk]
    growth = " and ".join(f"{of['growth_mib']:+.1f} MiB ({'flat' if of['flat'] else 'NOT flat'})" for of in held)
    note = (
        f"{talk['minutes']:g} minutes of speaking, {talk['listeners']} listeners at once: {talk['requests']} requests, "
        f"{talk['audio_s']:.0f} s of audio; from the first quarter to the last {growth}."
    )
    return Table(title, ["", "MiB"], rows, [note])


def _part_rows(load: Mapping[str, Any]) -> list[list[Cell]]:
    return [[NAMES[name], f"{mib:,.1f}"] for name, mib in load["parts"].items()]


def _process_rows(load: Mapping[str, Any]) -> list[list[Cell]]:
    names = {
        "before_mib": "process, before loading",
        "loaded_mib": "process, loaded",
        "peak_mib": "process, at its largest while loading",
        "device_loaded_mib": "device, loaded",
        "device_peak_mib": "device, at its largest while loading",
    }
    return [[name, f"{load[key]:,.1f}"] for key, name in names.items() if load[key] is not None]


def _speaking_rows(talk: Mapping[str, Any]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for key, name in {"process": "process", "on_device": "device"}.items():
        if key in talk:
            rows.append([f"{name}, speaking, first quarter", f"{talk[key]['first_mib']:,.1f}"])
            rows.append([f"{name}, speaking, last quarter", f"{talk[key]['last_mib']:,.1f}"])
    return rows


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument("--task", choices=("loading", "speaking"), help=argparse.SUPPRESS)
    made.add_argument("--minutes", type=float, default=3.0, help="of speaking")
    made.add_argument("--listeners", type=int, default=2)
    return made.parse_args()


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    if options.task == "loading":
        print(json.dumps(loading(options.model, options.device)))
    elif options.task == "speaking":
        talk = speaking(options.model, options.device, minutes=options.minutes, listeners=options.listeners)
        print(json.dumps(talk))
    else:
        load = in_new_process("loading", options)
        talk = in_new_process("speaking", options)
        threads = common_threads(of["threads"] for of in (load, talk))
        about = {"model": model_name(options.model), "device": load["device"], "threads": threads}
        found = {**about, "loading": load, "speaking": talk}
        table(found).show(threads)
        keep("memory", found)


if __name__ == "__main__":
    with exit_with_message():
        main()
