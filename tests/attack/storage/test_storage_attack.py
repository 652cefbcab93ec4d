"""A sample of the attacks on the library, and checks that they detect a broken library."""

import os
from functools import partial

import pytest

from storage.sqlite import connection
from tests.attack.storage import cuts, damaged, faults, full_disk, kills, leftovers
from tests.attack.storage.tally import Tally
from tests.attack.storage.workloads import workloads


@pytest.mark.parametrize(
    ("attack", "count"), [(cuts.run, None), (faults.run, None), (partial(leftovers.run, steps=60), 1), (damaged.run, 3)]
)
def test_library_withstands_cuts_faults_deletions_and_damage(attack: object, count: int | None) -> None:
    """count: of attempts; None for one of each workload."""
    assert callable(attack)
    wanted = count or len(workloads())
    tally: Tally = attack(wanted)
    assert tally.tried >= wanted
    assert tally.broken == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_library_withstands_kills() -> None:
    assert kills.run(6, most_seconds=0.2).broken == []


def test_library_withstands_a_full_disk() -> None:
    if reason := full_disk.missing():
        pytest.skip(f"A full disk cannot be tried: {reason}")
    assert full_disk.run(1).broken == []


def test_deletion_of_all_data_that_is_repeated_on_a_full_disk_is_no_finding() -> None:
    number = next(number for number, each in enumerate(workloads()) if each.name == "forget")
    assert faults._broken(number, faults.Fault(26, full=True, lasting=False)) is None


def test_missing_syncs_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PRAGMAS", ("synchronous = OFF",))
    monkeypatch.setattr(cuts, "workloads", lambda: workloads()[:3])
    cuts.recording.cache_clear()
    try:
        assert cuts.run(9).broken
    finally:
        cuts.recording.cache_clear()


def test_leftover_bytes_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PRAGMAS", ("synchronous = OFF", "secure_delete = OFF"))
    assert leftovers.crowded(0, voices=40).broken
