"""The number of replicas that a queue needs, and the metrics of the dashboard; without a cluster."""

import re
from types import SimpleNamespace

import pytest

from studio.cluster.autoscaling import policy, replicas_for
from tests.paths import ROOT


@pytest.mark.parametrize(
    ("queued", "busy", "wanted"),
    [
        ([0.0, 0.0], [0.0, 0.0], 1),  # idle
        ([0.0, 0.0], [0.5, 0.5], 2),
        ([0.0, 0.0, 0.0], [0.2, 0.2, 0.2], 1),  # one replica is enough
        ([5.0, 0.0], [1.0, 1.0], 3),  # audio is queued
        ([60.0, 60.0], [1.0, 1.0], 8),  # a minute per replica
    ],
)
def test_replica_count_follows_the_queued_audio(queued: list[float], busy: list[float], wanted: int) -> None:
    assert replicas_for(queued, busy, len(queued)) == wanted


def test_policy_stays_within_bounds_and_waits_for_metrics() -> None:
    def wanted(**given: object) -> int:
        context = {"current_num_replicas": 2, "capacity_adjusted_min_replicas": 1, "capacity_adjusted_max_replicas": 4}
        return policy(SimpleNamespace(**{**context, "aggregated_metrics": None, **given}))[0]

    assert wanted() == 2
    assert wanted(aggregated_metrics={"queued_seconds": {"a": 500.0}, "busy": {"a": 1.0}}) == 4
    assert wanted(aggregated_metrics={"queued_seconds": {}, "busy": {"a": 0.0, "b": 0.0}}) == 1


def test_dashboard_shows_existing_metrics() -> None:
    """Ray adds the prefix `ray_` to names, and the suffix `_total` to those of counters."""
    source = (ROOT / "studio/cluster/replica.py").read_text()
    kinds = {name: kind for kind, name in re.findall(r'(Gauge|Counter|Histogram)\("(reprise_\w+)"', source)}
    ends = {"Gauge": "", "Counter": "_total", "Histogram": "_bucket"}
    board = (ROOT / "docs/grafana/cluster.json").read_text()
    assert set(re.findall(r"ray_(reprise_\w+)", board)) == {name + ends[kind] for name, kind in kinds.items()}


def test_dashboard_names_replicas_by_a_label_that_their_metrics_have() -> None:
    """Serve's metrics have `replica`, Ray's own lack it. The other labels are Prometheus' and those of Ray's nodes."""
    board = (ROOT / "docs/grafana/cluster.json").read_text()
    assert set(re.findall(r"{{(\w+)}}", board)) == {"replica", "instance", "GpuIndex"}
    assert "from ray.serve.metrics import" in (ROOT / "studio/cluster/replica.py").read_text()
