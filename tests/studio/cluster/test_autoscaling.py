"""How many replicas the queue needs, and what is shown of them: without a cluster."""

import re
from types import SimpleNamespace

import pytest

from studio.cluster.autoscaling import policy, replicas_for
from tests.paths import ROOT


@pytest.mark.parametrize(
    ("queued", "busy", "wanted"),
    [
        ([0.0, 0.0], [0.0, 0.0], 1),  # nothing to do
        ([0.0, 0.0], [0.5, 0.5], 2),
        ([0.0, 0.0, 0.0], [0.2, 0.2, 0.2], 1),  # one could take it all
        ([5.0, 0.0], [1.0, 1.0], 3),  # something waits
        ([60.0, 60.0], [1.0, 1.0], 8),  # a minute for each
    ],
)
def test_replicas_follow_the_audio_that_waits(queued: list[float], busy: list[float], wanted: int) -> None:
    assert replicas_for(queued, busy, len(queued)) == wanted


def test_the_policy_stays_within_bounds_and_waits_for_reports() -> None:
    def wanted(**given: object) -> int:
        context = {"current_num_replicas": 2, "capacity_adjusted_min_replicas": 1, "capacity_adjusted_max_replicas": 4}
        return policy(SimpleNamespace(**{**context, "aggregated_metrics": None, **given}))[0]

    assert wanted() == 2
    assert wanted(aggregated_metrics={"queued_seconds": {"a": 500.0}, "busy": {"a": 1.0}}) == 4
    assert wanted(aggregated_metrics={"queued_seconds": {}, "busy": {"a": 0.0, "b": 0.0}}) == 1


def test_the_dashboard_shows_metrics_that_replicas_have() -> None:
    """Ray writes `ray_` before the names, and `_total` behind those of counters."""
    source = (ROOT / "studio/cluster/replica.py").read_text()
    kinds = {name: kind for kind, name in re.findall(r'(Gauge|Counter|Histogram)\("(reprise_\w+)"', source)}
    ends = {"Gauge": "", "Counter": "_total", "Histogram": "_bucket"}
    shown = set(re.findall(r"ray_(reprise_\w+)", (ROOT / "docs/grafana/cluster.json").read_text()))
    assert shown == {name + ends[kind] for name, kind in kinds.items()}
