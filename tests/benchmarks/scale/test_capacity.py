"""Properties of the capacity model that hold for any numbers."""

from benchmarks.scale import capacity
from benchmarks.scale.capacity import S2_PRO, bundled, hit_rate, plan


def test_routing_and_replicas_raise_the_hit_rate() -> None:
    alone = hit_rate(1, 80, 5_000, 1.0, routed=True)
    assert 0.2 < alone < 0.7
    assert hit_rate(10, 80, 5_000, 1.0, routed=True) > alone + 0.2
    assert abs(hit_rate(10, 80, 5_000, 1.0, routed=False) - alone) < 0.05
    assert hit_rate(100, 80, 5_000, 1.0, routed=True) > 0.97  # all voices fit
    assert hit_rate(1, 80, 5_000, 1.5, routed=True) > alone  # fewer voices are requested


def test_plan_grows_with_listeners(monkeypatch) -> None:
    monkeypatch.setattr(capacity, "REQUESTS", 2_000)
    for replica in (bundled(), S2_PRO):
        small, large = (plan(replica, listeners, 5_000, 1.0) for listeners in (100, 10_000))
        least = large.listeners * replica.frame_rate / replica.frames_per_second
        assert least < large.replicas < 2 * least + 2
        assert large.replicas > small.replicas
        assert large.statements == 100 * small.statements
        assert large.dollars <= small.dollars
        assert "page process" in large.first
