"""Time from the start of a process until the engine is loaded, and until all graphs are captured.

    python -m benchmarks.speed.ready [--model FOLDER] [--device cuda] [--precision bf16 int8] [--compiled]

The first start has empty caches: of Triton's kernels, of compiled blocks, of native code, and of the CUDA driver. The
second start, in another process, has those that the first one left. Both read the model from the same files, which are
usually in the system's cache already. An engine speaks as soon as it is loaded; until it is ready, sizes without a
graph are captured when they are needed. `import`: of the engine and PyTorch. `ready`: after loading.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._report import Cell, common_threads, torch_threads
from benchmarks.child_process import run_module
from benchmarks.engines import loaded, wait_until_ready
from benchmarks.speed._shared import Table, engine_parser, keep, model_name
from engine.models.quantization import Precision
from engine.options import SpeakOptions
from engine.release.hub import find_release
from training.work import exit_with_message

STARTS = ("first", "second")
TEXT = "The children are playing in the garden behind the old house."


def start(model: str, device: str, precision: Precision | None, compiled: bool, since: float) -> dict[str, Any]:
    """Load an engine in this new process, wait until it is ready, and speak. since: `time.time` at its start."""
    imported = time.time() - since
    began = time.perf_counter()
    with loaded(model, device, precision=precision, compiled=compiled) as engine:
        load = time.perf_counter() - began
        ready = wait_until_ready(engine)
        speech = engine.speak(TEXT, options=SpeakOptions(seed=1))
        for _ in speech:
            speech.cancel()
        return {
            "precision": engine.precision,
            "threads": torch_threads(),
            "import_s": imported,
            "load_s": load,
            "ready_s": ready,
            "first_audio_s": None if speech.result is None else speech.result.first_audio,
            "slots": engine.info.slots,
            "graphs": engine.status().graphs,
        }


def caches(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose caches are in `folder`."""
    names = {
        "XDG_CACHE_HOME": "user",
        "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "CUDA_CACHE_PATH": "cuda",
    }
    return {**os.environ, **{name: str(folder / place) for name, place in names.items()}}


def measure(model: str, device: str, precision: Precision | None, compiled: bool) -> list[dict[str, Any]]:
    """Measure both starts, each in a new process. Raises CalledProcessError if one fails."""
    folder = str(find_release(model).resolve())  # not in the user's cache, which the processes do not have
    found = []
    with tempfile.TemporaryDirectory() as empty:
        for name in STARTS:
            arguments = ["--model", folder, "--device", device]
            arguments += ["--precision", precision] if precision else []
            arguments += ["--compiled"] if compiled else []
            arguments += ["--since", repr(time.time())]
            figures = run_module("benchmarks.speed.ready", *arguments, environment=caches(Path(empty)))
            found.append({"start": name, "compiled": compiled, **figures})
    return found


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    title = f"Starts with {found['model']} on {found['device']}"
    columns = ["start", "weights", "import, s", "load, s", "ready after, s", "first audio, ms"]
    notes = [
        f"Graphs of the {of['start']} start in {of['precision']}, {of['slots']} slots: {of['graphs']}."
        for of in found["starts"]
        if of["graphs"] != "frame"
    ]
    return Table(title, columns, [_row(of) for of in found["starts"]], notes)


def _row(of: Mapping[str, Any]) -> list[Cell]:
    name = of["start"] + (", compiled" if of["compiled"] else "")
    seconds = [f"{of[key]:.1f}" for key in ("import_s", "load_s", "ready_s")]
    first = of["first_audio_s"]
    return [name, of["precision"], *seconds, None if first is None else f"{first * 1000:.0f}"]


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument("--precision", nargs="+", default=[None], help="of the weights; the engine's own by default")
    made.add_argument("--compiled", action="store_true", help="with compiled blocks, on a GPU")
    made.add_argument("--since", type=float, help=argparse.SUPPRESS)
    return made.parse_args()


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    if options.since is not None:
        precision = options.precision[0]
        print(json.dumps(start(options.model, options.device, precision, options.compiled, options.since)))
        return
    starts: list[dict[str, Any]] = []
    found: dict[str, Any] = {"model": model_name(options.model), "device": options.device, "starts": starts}
    for precision in options.precision:
        starts += measure(options.model, options.device, precision, options.compiled)
        found["threads"] = common_threads(of["threads"] for of in starts)
        keep("ready", found)
    table(found).show(found["threads"])


if __name__ == "__main__":
    with exit_with_message():
        main()
