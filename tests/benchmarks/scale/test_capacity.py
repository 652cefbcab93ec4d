"""Properties of the capacity model that hold for any numbers, and the origins of its figures."""

import json
from pathlib import Path

import pytest

from benchmarks.scale import capacity
from benchmarks.scale.capacity import UTILISATION, Replica, bundled, hit_rate, plan, replicas_needed, s2_pro
from tests.paths import ROOT


def test_routing_and_replicas_raise_the_hit_rate() -> None:
    alone = hit_rate(1, 80, 5_000, 1.0, routed=True)
    assert 0.2 < alone < 0.7
    assert hit_rate(10, 80, 5_000, 1.0, routed=True) > alone + 0.2
    assert abs(hit_rate(10, 80, 5_000, 1.0, routed=False) - alone) < 0.05
    assert hit_rate(100, 80, 5_000, 1.0, routed=True) > 0.97  # all voices fit
    assert hit_rate(1, 80, 5_000, 1.5, routed=True) > alone  # fewer voices are requested


def test_plan_grows_with_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "REQUESTS", 2_000)
    for replica in (bundled(), s2_pro()):
        small, large = (plan(replica, listeners, 5_000, 1.0) for listeners in (100, 10_000))
        least = large.listeners * replica.frame_rate / replica.frames_per_second
        assert least < large.replicas < 2 * least + 2
        assert large.replicas > small.replicas
        assert large.statements == 100 * small.statements
        assert large.dollars <= small.dollars
        assert "page process" in large.first


def test_replicas_are_the_fewest_that_bear_their_own_cache_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "REQUESTS", 2_000)
    replica = bundled().with_given(prefill=0.5)
    for listeners in (100, 1_000):
        count = replicas_needed(replica, listeners, 5_000, 1.0)
        here, fewer = (_load(replica, listeners, each) for each in (count, count - 1))
        assert here <= count
        assert fewer > count - 1


def _load(replica: Replica, listeners: int, count: int) -> float:
    """Return how many busy replicas the listeners keep, if `count` replicas share the voices."""
    misses = 1 - hit_rate(count, replica.cache_voices, 5_000, 1.0, routed=True)
    frames = listeners * replica.frame_rate / replica.frames_per_second
    return (frames + listeners / capacity.REQUEST_SECONDS * misses * replica.prefill) / UTILISATION


def test_frames_are_the_most_without_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"listeners": count, "frames_per_second": rate, "underruns": underruns}
        for count, rate, underruns in ((8, 700.0, 0), (32, 1300.0, 0), (64, 1500.0, 32))
    ]
    times = {"a saved voice": (0.003, 0.036), "a known voice": (0.002, 0.025)}
    first = [
        {"case": case, "reference_s": seconds}
        | {"queue": {"median": 0.001}, "prefill": {"median": prefill}, "frames": {"median": frames}}
        for seconds in (10.0, 30.0)
        for case, (prefill, frames) in times.items()
    ]
    machine = {"gpu": "H200"}
    (tmp_path / "throughput-cuda.json").write_text(json.dumps({"machine": machine, "rows": rows}))
    (tmp_path / "first_audio-cuda.json").write_text(json.dumps({"machine": machine, "rows": first}))
    monkeypatch.setattr(capacity, "RESULTS", tmp_path)
    replica = s2_pro()
    assert (replica.frames_per_second, replica.prefill) == (1300, pytest.approx(0.012))
    told = replica.describe()
    assert "1,300 frames/s (measured with 32 listeners at once, without pauses, on H200: " in told
    assert "80 voices in its cache (assumed)" in told


def test_given_figures_are_not_called_measured() -> None:
    told = bundled().with_given(frames_per_second=5_000.0, price=1.0).describe()
    assert "5,000 frames/s (given)" in told
    assert "$1.00 an hour (given)" in told
    assert "throughput" not in told
    assert "to prepare a voice (measured: " in told


def test_document_has_the_figures_of_the_results() -> None:
    document = (ROOT / "docs" / "scale.md").read_text("utf-8")
    for replica in (bundled(), s2_pro()):
        assert replica.describe() in document
