"""docs/performance.md matches the results, and shows those of several machines. So do other documents."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import document, targets
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.judges.words import WordErrors, word_error_rate
from benchmarks.memory.sizes import s2_pro
from benchmarks.run import GPU_STEPS, STEPS
from benchmarks.speed import page_weight
from engine.serving.memory import plan_memory
from tests.paths import ROOT

README = (ROOT / "README.md").read_text("utf-8")
MODELS = " ".join((ROOT / "docs" / "models.md").read_text("utf-8").split())
MODEL_CARD = (ROOT / "assets" / "bundled" / "README.md").read_text("utf-8")

TRAINED = {
    "six sample voices (in training)": "sample voices, in training",
    "six held-out voices": "held-out voices",
}


def results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        Path(document.__file__).with_name("results").joinpath(f"{name}.json").read_text()
    )
    return found


def rounded(found: dict[str, Any]) -> str:
    return f"{found['value']:.2f}".removeprefix("0")


def cells(text: str, row: str) -> list[str]:
    """Return the cells of a table's row after its title, without bold type and intervals."""
    found = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", text, re.M)
    assert found is not None, row
    return [re.sub(r"\*\*| \(.*?\)", "", cell).strip() for cell in found[1].split("|")]


def test_word_errors_are_those_of_the_results() -> None:
    heard = results("voice_quality")["understood"]
    parts = [heard[part] for part in ("teachers", "codec", "speech")]
    sexes = "… women's voices, men's voices"
    for row, group in TRAINED.items():
        assert cells(README, f"… {row}") == [rounded(part[group]) for part in parts], row
    assert cells(README, sexes) == [
        ", ".join(rounded(part[f"{of} voices"]) for of in ("women's", "men's")) for part in parts
    ]
    for row, group in {
        "twelve voices, six of them held out": "all voices",
        "six sample voices, in training": "sample voices, in training",
        "six held-out voices": "held-out voices",
        "women's voices": "women's voices",
        "men's voices": "men's voices",
    }.items():
        teachers, codec, model = (rounded(part[group]) for part in parts)
        assert cells(MODEL_CARD, row)[-3:] == [model, codec, teachers], row


def test_word_errors_of_voices_in_training_and_held_out_are_those_of_the_utterances() -> None:
    found, held_out = results("voice_quality"), {speaker.name for speaker in EvaluationSet.load().speakers}
    for part, heard in found["heard"].items():
        for group, is_held_out in {"sample voices, in training": False, "held-out voices": True}.items():
            errors = [WordErrors(**each["errors"]) for each in heard if (each["voice"] in held_out) == is_held_out]
            row = found["understood"][part][group]
            assert (row["items"], row["groups"]) == (len(errors), 6)
            assert row["value"] == pytest.approx(word_error_rate(errors), abs=1e-4)


def test_figures_of_held_out_sentences_are_those_of_the_results() -> None:
    figures = results("voice_quality")["figures"]
    for row, figure in {
        "word error, pocketsphinx's general model": "word error, pocketsphinx with its general model",
        "speaker similarity to the reference (resemblyzer)": "speaker similarity to the reference",
        "own reference is the nearest of 20 (chance .05)": "own reference is the nearest",
        "sound quality, DNSMOS P.835, speech alone (1 to 5)": "sound quality, DNSMOS P.835, speech alone",
        "sound quality, DNSMOS P.808 (1 to 5)": "sound quality, DNSMOS P.808",
    }.items():
        found = [rounded(figures[part][figure]) for part in ("teachers", "backwards", "codec", "speech")]
        assert [float(cell) for cell in cells(MODEL_CARD, row)[1:]] == [float(cell) for cell in found], row


def test_gain_of_8_bits_is_that_of_the_results() -> None:
    rates = {
        mode["precision"]: mode["frames_per_second"]
        for mode in results("floor")["sizes"]["0.5 B"]["modes"]
        if mode["mode"] == "frame recorded"
    }
    to_fp32, to_bf16 = (f"{rates['int8'] / rates[other]:.1f}" for other in ("fp32", "bf16"))
    assert f"{to_fp32} times as many frames as in fp32 and {to_bf16} times as many" in MODELS


def test_number_of_targets_of_a_gpu_that_are_reached_is_that_of_the_results() -> None:
    reached = Counter(verdict for *_, verdict in targets.rows(Path(document.__file__).with_name("results")))
    text = " ".join(README.split())
    told = re.search(r"Of eleven \[targets\]\S+ (\w+) are reached, (\w+) are missed and (\w+) have not", text)
    assert told is not None
    numbers = {"two": 2, "three": 3, "six": 6}
    assert [numbers[word] for word in told.groups()] == [reached.pop("yes"), reached.pop("NO"), reached.total()]
    assert sum(numbers[word] for word in told.groups()) == 11


def test_memory_in_use_is_that_of_the_results() -> None:
    cases = {each["precision"]: each for each in results("device_memory-cuda")["cases"] if each.get("slots") == 1}
    used = {
        precision: max(stage["used"] for stage in case["stages"].values()) * 2**20 / 1e9
        for precision, case in cases.items()
    }
    positions = cases["bf16"]["positions"]
    told = f"with one slot of {positions:,} positions, at most {used['bf16']:.1f} GB were in use in bf16"
    assert told in MODELS
    assert f"limited to 8 GiB, {used['int8']:.1f} GB in int8" in MODELS


def test_planned_memory_is_that_of_s2_pro() -> None:
    """On a GPU, where the embeddings of its text, up to <|im_end|> (151,645), stay in host memory."""
    on_gpu = replace(s2_pro().architecture, host_rows=151_645)
    bf16 = plan_memory(on_gpu, "bf16", available=None, slots=1, positions=4096).total / 1e9
    int8 = plan_memory(on_gpu, "int8", available=None, slots=1, positions=4096).total / 1e9
    told = (
        f"plan of S2-Pro on a GPU with one slot of 4,096 positions is {bf16:.1f} GB in bf16 and {int8:.1f} GB in int8"
    )
    assert told in MODELS


def test_sections_are_those_of_the_steps_of_a_run() -> None:
    others = {"tests", "document", "floor_one_thread"}  # the last is a second result of one section
    for steps, sections in (
        (STEPS, [section.name for section in document.SECTIONS if section.on_cpu]),
        (GPU_STEPS, [section.name for section in document.SECTIONS if section.on_gpu]),
    ):
        assert {step.name for step in steps} - others == set(sections)


def test_document_matches_the_results() -> None:
    results = Path(document.__file__).with_name("results")
    assert document.DOCUMENT.read_text("utf-8") == document.render(document.load(results))


def test_gpu_results_are_shown_next_to_cpu_results() -> None:
    results = Path(document.__file__).with_name("results")
    found = {"speaking": document.load(results)["speaking"]}
    without = document.render(found)
    assert "`make bench-gpu`" in without
    assert without.count("None of these benchmarks has been run on a GPU") == 1
    gpu = {**found["speaking"], "device": "cuda:0"}
    some = document.render({**found, "speaking-cuda": gpu})
    assert "bundled on cpu" in some
    assert "bundled on cuda:0" in some
    assert "Not run on a GPU yet: Against a plain port, First audio" in some
    names = [section.name for section in document.SECTIONS if section.on_gpu]
    gpus = {f"{name}-cuda": {} for name in names}
    assert document._gpu(gpus) == ""


def test_kernels_section_says_what_gpus_have_run() -> None:
    results = Path(document.__file__).with_name("results")
    found = {name: document.load(results)[name] for name in ("kernels", "floor")}
    assert "No GPU has run these kernels yet." in document.render(found)
    gpu = {**found["floor"], "device": "cuda:0", "machine": {**found["floor"]["machine"], "gpu": "NVIDIA H200"}}
    fused = {**found["floor"]["sizes"]["bundled"]["modes"][0], "mode": "frame graph, fused"}
    skipped = {"mode": "frame graph, fused", "precision": "bf16", "skipped": "kernels: no ptxas found"}
    for modes, said in (([fused, skipped], "has run these kernels"), ([skipped], "no ptxas found")):
        gpu["sizes"] = {"S2-Pro": {"modes": modes, "recording": {"skipped": "not reached"}}}
        page = document.render({**found, "floor-cuda": gpu})
        assert "No GPU has run" not in page
        assert f"A GPU (NVIDIA H200) {'has' if said.startswith('has') else 'has not'} run these kernels" in page
        assert said in page


def test_results_of_other_machines_and_threads_have_their_own_line() -> None:
    results = Path(document.__file__).with_name("results")
    one = document.load(results)["floor"]
    gpu = {**one, "device": "cuda:0", "machine": {**one["machine"], "gpu": "NVIDIA H200", "processor": "Xeon"}}
    alone = {**one, "threads": 1, "machine": {**one["machine"], "threads": 1}}
    page = document.render({"floor": {**one, "threads": 2}, "floor-cuda": gpu, "floor-one-thread": alone})
    lines = ("on cpu, 2 threads:", "on cpu, 1 thread:", "on cuda:0:", "Xeon", "NVIDIA H200")
    assert [page.count(line) for line in lines] == [1] * len(lines)


def test_page_table_compares_first_and_second_visit() -> None:
    times = {name: {"median": 1.0, "worst": 2.0} for name in page_weight.TIMES}
    found = {"runs": 3, "bytes": {"fonts": 48_000.0, "ours": 112_200.0}, "first": times, "again": times}
    rows = page_weight.table(found).rows
    assert rows[1] == ["sent, ours", "112 kB", None]
    assert rows[-1] == ["interactive", "1.00 s (worst 2.00 s)", "1.00 s (worst 2.00 s)"]
    assert page_weight.kind_of("http://h/reprise/static/1/main.js") == "ours"
