"""Write docs/performance.md from the results in benchmarks/results/.

    python -m benchmarks.document

The document depends only on these files.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import _report, targets
from benchmarks.memory import codec_views
from benchmarks.memory import device as device_memory
from benchmarks.memory import usage as memory
from benchmarks.speed import (
    first_audio,
    floor,
    http_latency,
    kernels,
    page_latency,
    page_weight,
    qwen3_tts,
    ready,
    reference_baseline,
    speaking,
    throughput,
)
from benchmarks.speed._shared import Table

DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"

Result = Mapping[str, Any]

INTRODUCTION = """\
# Performance

Speed and memory figures, with the machine and the command of each. `python -m benchmarks.document` writes this file
from the results in [benchmarks/results](../benchmarks/results). `make bench` runs the benchmarks that need no GPU,
except that of Qwen3-TTS, and then writes it; `make bench-gpu` does the same for a GPU. Figures from different machines
are not comparable; ratios compare runs on one machine within one run of a benchmark.

A frame is one step of both transformers and about 46 ms of audio. The real-time factor is seconds of computation
per second of audio: below 1 is faster than real time."""

NO_GPU = (
    "None of these benchmarks has been run on a GPU yet. On a machine with a GPU, `make bench-gpu` runs them all, "
    "mostly at S2-Pro's sizes with random weights, and adds their tables here."
)
# Results of one benchmark beside its usual one.
KINDS = ("one-thread", "cuda")
SOME_GPU = "Not run on a GPU yet: {}; `make bench-gpu` runs them all."


def _fused_on_gpu(results: Mapping[str, Result]) -> str:
    """Say whether a GPU has run the fused kernels, from the modes of `floor`."""
    found = results.get("floor-cuda")
    modes = [mode for of in found["sizes"].values() for mode in of["modes"] if "fused" in mode["mode"]] if found else []
    if found is None or not modes:
        return "No GPU has run these kernels yet."
    gpu, commit = found["machine"]["gpu"], found["machine"]["commit"]
    refused = [mode["skipped"] for mode in modes if "skipped" in mode]
    if len(refused) == len(modes):
        return f"A GPU ({gpu}) has not run these kernels: {refused[0]}"
    return (
        f"A GPU ({gpu}) has run these kernels, as they were after commit {commit.split('-')[0]}; its frame rates are "
        "under “Memory bandwidth bound”."
    )


@dataclass(frozen=True)
class Section:
    """Section of one benchmark: its module, result name, heading and description.

    tables: of a result; by default the module's `table`. on_gpu, on_cpu: whether `make bench-gpu` and `make bench` run
    it. note: a last paragraph, from all results.
    """

    module: ModuleType
    name: str
    heading: str
    says: str
    tables: Callable[[Result], list[Table]] | None = None
    on_gpu: bool = True
    on_cpu: bool = True
    note: Callable[[Mapping[str, Result]], str] = lambda _results: ""


SECTIONS = (
    Section(
        reference_baseline,
        "reference_baseline",
        "Against a plain port",
        "A small, straightforward program on the same weights: it encodes its clip in each request, multiplies the "
        "whole vocabulary, attends to all positions, does not batch, and decodes every chunk from the start again.",
    ),
    Section(
        speaking,
        "speaking",
        "Speaking",
        "One listener and a saved voice, timed from outside the engine.",
    ),
    Section(
        first_audio,
        "first_audio",
        "First audio",
        "From the request to the first samples, by what is cached of the voice. Cold: the engine has just been loaded "
        "and the clip is new. A saved voice: its codes are stored, but it has not spoken since the model was loaded, "
        "and nothing has prepared it. A known voice: it has, and the keys and values of its prompt are cached.",
    ),
    Section(
        http_latency,
        "http_latency",
        "Over HTTP",
        "From the request to the first byte of `POST /v1/audio/speech`, against the first encoded bytes in process: "
        "the same sentence in the same voice, in turns. The client is a process of its own.",
    ),
    Section(
        page_latency,
        "page_latency",
        "In the browser",
        "From the click to the first sample that the browser plays: Reprise's player (events into an audio worklet) "
        "against Gradio's streaming, on the same stream.",
        on_gpu=False,
    ),
    Section(
        page_weight,
        "page_weight",
        "Opening the page",
        "What a first visit loads, compressed, and the times until something is seen, until Speak can be pressed and "
        "heard, and until the browser has become quiet (Time to Interactive), with an empty cache and with a full one.",
        on_gpu=False,
    ),
    Section(
        throughput,
        "throughput",
        "Concurrent listeners",
        "Listeners who start at the same moment, each with its own text, against the same requests one by one.",
    ),
    Section(
        floor,
        "floor",
        "Memory bandwidth bound",
        "Every frame reads the weights, so the measured bandwidth divided by the bytes of a frame bounds the frame "
        "rate of one listener. A small model fits in the cache and is limited by other factors.",
    ),
    Section(
        kernels,
        "kernels",
        "Kernels of a frame on a GPU",
        "One listener's frame at S2-Pro's sizes, counted on meta tensors without a GPU: the plain frame, and the one "
        "with fused kernels that a GPU runs where they agree with the plain ones.",
        on_gpu=False,
        note=_fused_on_gpu,
    ),
    Section(
        ready,
        "ready",
        "Starting",
        "A first start with empty caches of compiled kernels, and a second one with the first one's caches. An engine "
        "speaks as soon as it is loaded; it is ready when all graphs are captured.",
    ),
    Section(
        device_memory,
        "device_memory",
        "Memory of a GPU",
        "Peaks of each stage, also within the memory of smaller cards.",
        on_cpu=False,
    ),
    Section(
        memory,
        "memory",
        "Memory",
        "The size of the engine's parts, and the memory of the process while loading and while speaking continuously.",
    ),
    Section(
        codec_views,
        "codec_views",
        "The codec's views",
        "Encoder and decoder are loaded separately, each with only the weights it uses.",
        tables=codec_views.tables,
        on_gpu=False,
    ),
    Section(
        qwen3_tts,
        "qwen3_tts",
        "Qwen3-TTS",
        "The views of its codec, each with only the weights that it uses. The same command measures frames against the "
        "public package `qwen-tts` on the same weights, in turn.",
        tables=qwen3_tts.tables,
        on_gpu=False,
        on_cpu=False,  # it needs another Python
    ),
)


def load(folder: Path | None = None) -> dict[str, Result]:
    """Load the results in a folder, by name."""
    paths = sorted((folder or _report.RESULTS).glob("*.json"))
    return {path.stem: json.loads(path.read_text("utf-8")) for path in paths}


def render(results: Mapping[str, Result]) -> str:
    """Render the document as Markdown."""
    sections = [_section(section, results) for section in SECTIONS]
    parts = [INTRODUCTION, *sections, _targets(results), _gpu(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section, results: Mapping[str, Result]) -> str:
    names = (section.name, *(f"{section.name}-{kind}" for kind in KINDS))
    if not section.on_cpu and not any(name in results for name in names):
        return ""
    command = f"`python -m {section.module.__name__}`"
    parts = [f"## {section.heading}", f"{section.says} ({command})"]
    for name in names:
        if name in results:
            parts += _result(results[name], section)
        elif name == section.name and section.on_cpu:
            parts.append("This has not been run yet.")
    if note := section.note(results):
        parts.append(note)
    return "\n\n".join(parts)


def _result(found: Result, section: Section) -> Iterator[str]:
    yield _report.describe(found["machine"])
    for table in section.tables(found) if section.tables else [section.module.table(found)]:
        yield f"**{table.title}**"
        yield table.markdown()


def _targets(results: Mapping[str, Result]) -> str:
    rows = targets.compare(results)
    if all(value is None for _, _, value, _ in rows):
        return ""
    says = "What is wanted of an H200, at S2-Pro's sizes, and the best that the results above have."
    return f"## Targets of a GPU\n\n{says}\n\n{_report.table(targets.COLUMNS, rows)}"


def _gpu(results: Mapping[str, Result]) -> str:
    wanted = [section for section in SECTIONS if section.on_gpu]
    missing = [section.heading for section in wanted if f"{section.name}-cuda" not in results]
    if not missing:
        return ""
    says = NO_GPU if len(missing) == len(wanted) else SOME_GPU.format(", ".join(missing))
    return f"## On a GPU\n\n{says}"


def main() -> None:
    """Write the document."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    DOCUMENT.write_text(render(load()), "utf-8")
    print(f"written: {DOCUMENT.relative_to(DOCUMENT.parents[1])}")


if __name__ == "__main__":
    main()
