"""The speed benchmarks on the miniature release: their values are consistent."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import _report
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.memory import usage as memory
from benchmarks.memory.sizes import Sizes
from benchmarks.speed import _shared, first_audio, floor, throughput
from benchmarks.speed.runner_modes import Bench, RunnerMode, build, new_runner, record, runner_modes
from benchmarks.speed.throughput import Take
from engine.audio import decode_audio
from engine.families.s2.codec import codec_files
from engine.families.s2.dual_ar import read_config
from engine.serving.runner.model_runner import ModelRunner
from tests.paths import MINIATURE

CPU = torch.device("cpu")
SIZES = Sizes("miniature", read_config(MINIATURE), codec_files(MINIATURE)[1])
# A frame or its trace takes the time of the layers, once for each codebook.
_STACKS = {name: replace(getattr(SIZES.dual_ar, name), n_layer=1) for name in ("slow", "fast")}
SMALL = replace(SIZES, dual_ar=replace(SIZES.dual_ar, num_codebooks=3, **_STACKS))
DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]
SENTENCES = ["Hi.", "Oh.", "No.", "Yes."]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Limit turns to a few frames, and save results to a temporary folder."""
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 12)
    monkeypatch.setattr("engine.request.turns.ATTEMPTS", 1)  # a fast turn of random weights would be spoken again
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def two_speakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the evaluation set to its first two speakers, since each voice is encoded."""
    some = EvaluationSet.load()
    monkeypatch.setattr(EvaluationSet, "load", lambda: replace(some, speakers=some.speakers[:2]))


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable tracing in advance, which takes seconds; traces are tested in tests/engine/serving."""
    monkeypatch.setattr(ModelRunner, "capture_next", lambda _: False)


def saved(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Save results, read them back, and assert that they are equal."""
    read: dict[str, Any] = json.loads(_shared.keep(name, found).read_text("utf-8"))
    assert read["machine"]["date"]
    assert {key: value for key, value in read.items() if key != "machine"} == json.loads(json.dumps(found))
    return read


# Memory bandwidth floor


@pytest.mark.parametrize("device", DEVICES)
def test_each_way_is_compared_with_its_own_floor(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "CPU_SLOTS", 2)
    saves: list[int] = []
    found = floor.run(
        torch.device(device),
        [SMALL],
        {"copy": 1e9, "product": 2e9},
        frames=4,
        runs=1,
        save=lambda so_far: saves.append(len(floor.table(so_far).rows)),
    )
    model_results = saved("floor", found)["sizes"]["miniature"]
    assert [mode["mode"] for mode in model_results["modes"]] == [
        mode.name for mode in runner_modes(torch.device(device), SMALL.architecture)
    ]
    measured = [mode for mode in model_results["modes"] if "skipped" not in mode]
    assert measured[0]["to_eager"] == 1
    for mode in measured:
        assert mode["floor_frames_per_second"] == pytest.approx(2e9 / mode["frame_bytes"])
        assert mode["share_of_floor"] == pytest.approx(mode["frames_per_second"] / mode["floor_frames_per_second"])
        assert mode["real_time_factor"] == pytest.approx(SMALL.codec.frame_rate / mode["frames_per_second"])
        assert mode["to_eager"] == pytest.approx(mode["frames_per_second"] / measured[0]["frames_per_second"])
    assert model_results["recording"]["slots"] == 2 or device != "cpu"
    assert model_results["parameters"] == sum(weight.numel() for weight in _weights("fp32", SMALL))
    table = floor.table(found)
    assert len(table.rows) == len(measured)
    assert saves[0] == 1
    assert saves[-1] == len(measured)
    assert all(len(row) == len(table.columns) for row in table.rows)


def _weights(precision: Any, sizes: Sizes) -> Iterator[torch.Tensor]:
    model = build(Bench(CPU, sizes, 1, 1, {}), precision)
    yield from (*model.slow.parameters(), *model.fast.parameters())


def compared(bench: Bench, chosen: list[RunnerMode]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    assert len(list(floor.comparing(bench, chosen, found))) == len(chosen)
    return found


def test_smaller_weights_have_a_higher_floor() -> None:
    bench = Bench(CPU, SMALL, frames=2, runs=1, bandwidths={"copy": 1e9})
    wide, narrow = compared(bench, [RunnerMode("eager", "fp32"), RunnerMode("eager", "bf16")])
    assert narrow["weights_bytes"] < wide["weights_bytes"]
    assert narrow["floor_frames_per_second"] == pytest.approx(2 * wide["floor_frames_per_second"])


def test_unavailable_way_is_skipped_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "has_compiler", lambda: False)
    bench = Bench(CPU, SMALL, frames=2, runs=1, bandwidths={"copy": 1e9})
    chosen = [
        RunnerMode("graph", "fp8", "fast"),
        RunnerMode("compiled", "fp32", compiled=True),
        RunnerMode("eager", "fp32"),
    ]
    no_fp8, no_compiler, eager = compared(bench, chosen)
    assert "Hopper" in no_fp8["skipped"]
    assert "compiler" in no_compiler["skipped"]
    assert eager["frames_per_second"] > 0
    model_results = {"modes": [no_fp8, no_compiler, eager], "recording": {"skipped": "no room"}}
    found = {"device": "cpu", "threads": 1, "bandwidth": {"copy": 1e9}, "sizes": {"miniature": model_results}}
    table = floor.table(found)
    assert len(table.rows) == 1
    assert [("Hopper" in note, "compiler" in note, "no room" in note) for note in table.notes] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_record_captures_graphs_and_measures_time() -> None:
    bench = Bench(CPU, SMALL, frames=1, runs=1, bandwidths={})
    runner = new_runner(bench, build(bench, "fp32"), "fast", slots=2)
    assert runner.graph_state == "fast"
    assert record(runner) > 0
    assert runner.graph_state == "fast"


def test_bandwidths_cover_all_compared_precisions() -> None:
    found = floor.bandwidths(CPU, size=1 << 20)
    assert list(found) == ["copy", "product in bfloat16", "product in float32"]
    assert all(rate > 0 for rate in found.values())


# First audio


def test_reference_has_requested_length_and_proportional_words() -> None:
    clip = EvaluationSet.load().speakers[0].reference
    samples, rate = clip.read()
    for seconds in (3.0, 10.0, 30.0):
        source, words = first_audio.reference(clip, seconds)
        assert len(decode_audio(source, rate)) == pytest.approx(seconds * rate, abs=1)
        spoken = seconds * rate / len(samples) * len(clip.text.split())
        assert len(words.split()) == pytest.approx(spoken, abs=1)
    assert first_audio.reference(clip, 3.0, 1)[0] != first_audio.reference(clip, 3.0, 2)[0]
    assert first_audio.reference(clip, 3.0, 1) == first_audio.reference(clip, 3.0, 1)


@pytest.mark.usefixtures("two_speakers", "untraced")
@pytest.mark.parametrize("device", DEVICES)
def test_stages_sum_to_first_audio_and_cases_differ(device: str) -> None:
    saves: list[int] = []
    found = first_audio.measure(
        str(MINIATURE),
        device,
        runs=1,
        cold_runs=1,
        lengths=(4.0,),
        save=lambda so_far: saves.append(len(so_far["rows"])),
    )
    assert saves == [4]
    rows = saved("first_audio", found)["rows"]
    assert [row["case"] for row in rows] == list(first_audio.CASES)
    for row in rows:
        total = sum(row[stage]["median"] for stage in first_audio.STAGES)
        assert row["first_audio"]["median"] == pytest.approx(total)
        assert all(row[stage]["worst"] >= row[stage]["median"] >= 0 for stage in first_audio.STAGES)
    assert [row["encode"]["median"] > 0 for row in rows] == [True, True, False, False]
    cold, new, saved_voice, known = (row["reused"] for row in rows)
    assert cold == 0
    assert new == saved_voice
    assert (new == 0) == (device == "cpu")  # a GPU reuses the beginning of the system text, which all prompts share
    assert known > new
    assert found["model"] == MINIATURE.name
    assert len(first_audio.table(found).rows) == 4


# Throughput


@pytest.mark.usefixtures("two_speakers", "untraced")
@pytest.mark.parametrize("device", DEVICES)
def test_codes_per_second_are_frames_times_codebooks(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, batches = throughput.at_once, list[int]()
    monkeypatch.setattr(throughput, "at_once", lambda of, asked: batches.append(len(asked)) or at_once(of, asked))
    saves: list[int] = []
    found = throughput.measure(
        str(MINIATURE),
        device,
        listeners=[1, 2],
        runs=2,
        alone=2,
        sentences=SENTENCES,
        save=lambda so_far: saves.append(len(so_far["rows"])),
    )
    warm_up, runs = batches[:2], (batches[2:6], batches[6:])
    assert warm_up == [1, 2]
    assert runs == ([1, 1, 1, 2], [1, 1, 1, 2])  # two requests one by one, then together
    assert saves == [1, 2, 2]
    assert (found["runs"], found["alone_runs"]) == (2, 2)
    rows = saved("throughput", found)["rows"]
    assert [row["listeners"] for row in rows] == [1, 2]
    assert [row["requests"] for row in rows] == [2, 4]
    for row in rows:
        assert row["codes_per_second"] == pytest.approx(row["frames_per_second"] * SIZES.dual_ar.num_codebooks)
        assert row["to_alone"] == pytest.approx(row["frames_per_second"] / row["alone_frames_per_second"])
        assert row["real_time_factor"]["p99"] >= row["real_time_factor"]["median"] > 0
        assert row["first_audio_s"]["p99"] >= row["first_audio_s"]["median"] > 0
    assert len(throughput.table(found).rows) == 2


def test_listener_counts_double_up_to_the_maximum() -> None:
    assert throughput.counts(1) == [1]
    assert throughput.counts(8) == [1, 2, 4, 8]
    assert throughput.counts(11) == [1, 2, 4, 8, 11]


def test_requests_have_distinct_texts_and_seeds() -> None:
    sentences = [clip.text for speaker in EvaluationSet.load().speakers for clip in speaker.sentences]
    requests = throughput.requests([None] * 3, sentences, 64)  # type: ignore[list-item]
    assert len({request.text for request in requests}) == len({request.seed for request in requests}) == 64
    assert requests == throughput.requests([None] * 3, sentences, 64)  # type: ignore[list-item]


def test_speed_uses_total_span_and_speed_alone_uses_work() -> None:
    one = Take(began=10.0, ended=12.0, first_audio=0.5, frames=20, seconds=1.0, underruns=0, stall_seconds=0.0)
    takes = [one, replace(one, began=11.0, ended=14.0, frames=60, underruns=2, stall_seconds=0.5)]
    assert one.real_time_factor == 2.0
    assert throughput.speed(takes) == 80 / 4
    assert throughput.speed_alone(takes) == 80 / 5
    found = throughput.figures([takes], takes, codebooks=10)
    assert (found["frames_per_second"], found["codes_per_second"], found["to_alone"]) == (20, 200, 20 / 16)
    assert (found["underruns"], found["starved_s"]) == (2, 0.5)


def test_tail_is_p99_or_maximum_of_few() -> None:
    assert _shared.tail(range(1, 101)) == {"median": 50.5, "p99": 99}
    assert _shared.tail([3.0, 1.0, 2.0]) == {"median": 2.0, "p99": 3.0}
    assert _shared.spread([3.0, 1.0, 2.0]) == {"median": 2.0, "worst": 3.0}


# Memory


@pytest.mark.slow
@pytest.mark.usefixtures("two_speakers", "untraced")
@pytest.mark.parametrize("device", DEVICES)
def test_memory_parts_are_counted_and_speaking_is_sampled(device: str) -> None:
    model = str(MINIATURE)
    load = memory.loading(model, device)
    talk = memory.speaking(model, device, minutes=0.01, listeners=2, every=0.2, texts=["Hi.", "Oh."])
    found = saved("memory", {"model": "miniature", "device": load["device"], "loading": load, "speaking": talk})
    held = load["parts"]
    assert set(held) == set(memory.NAMES)
    assert held["kv"] == pytest.approx(held["kv_per_slot"] * load["slots"])
    assert held["slow"] + held["fast"] == pytest.approx(_mib(load["precision"]), rel=0.05)  # includes rotary tables
    assert held["encoder"] > 0
    assert held["decoder"] > 0
    assert held["prefixes"] > 0
    assert 0 < load["before_mib"] <= load["peak_mib"]
    assert talk["requests"] >= 1
    assert talk["audio_s"] > 0
    assert len(talk["process"]["mib"]) == 4
    assert ("on_device" in talk) == device.startswith("cuda")
    assert len(memory.table(found).notes) == 1


def _mib(precision: Any) -> float:
    return sum(weight.nbytes for weight in _weights(precision, SIZES)) / memory.MIB


def test_growing_memory_is_not_flat() -> None:
    steady = memory.quarters([100.0, 101.0, 99.0, 100.0, 100.0, 101.0, 100.0, 100.0])
    growing = memory.quarters([100.0 + i for i in range(8)])
    assert steady["flat"]
    assert not growing["flat"]
    assert growing["growth_mib"] == 6
    assert growing["last_mib"] - growing["first_mib"] == growing["growth_mib"]


# Results


def test_gpu_results_are_saved_under_a_separate_name(tmp_path: Path) -> None:
    _shared.keep("speed", {"device": "cuda:0"})
    _shared.keep("speed", {"device": "cpu"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["speed-cuda.json", "speed.json"]
