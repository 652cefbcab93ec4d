"""A sample of the live attacks on one server with the bundled model; `make attack` runs all."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.attack import Attack
from tests.attack.live import gate, owners, programs, server
from tests.attack.running import guard, worker
from tests.attack.running.outcome import WRONG


@pytest.fixture(scope="module", autouse=True)
def attack_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The folder of the one server that all attacks of this module share. Its engine captures no graphs in advance."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv("REPRISE_ATTACK_FOLDER", str(tmp_path_factory.mktemp("live")))
        patches.setenv("REPRISE_GRAPHS", "off")
        yield
        server.shared_server("--owners", "browser").stop()
        server.shared_server.cache_clear()
        gate._guest.cache_clear()


def gate_requests() -> list[gate.GateRequest]:
    """Every ninth request, without those that need a server with a token."""
    return [request for request in gate._requests() if request.with_cookie][::9]


def test_gate_rejects_hostile_requests() -> None:
    for request in gate_requests():
        assert_passes(gate.GATE, request)


def test_owners_cannot_reach_each_others_data() -> None:
    for case in owners.INTRUDER.cases(1, 2):
        assert_passes(owners.INTRUDER, case)


def test_hostile_api_calls_are_answered_with_sentences() -> None:
    for case in programs.PROGRAMS.cases(1, 24):
        assert_passes(programs.PROGRAMS, case)


def assert_passes(attack: Attack, case: object) -> None:
    outcome = worker.run(attack, case)
    assert outcome.kind not in WRONG, f"{str(case)[:200]}: {outcome.detail}"


def test_server_writes_nothing_outside_its_folder_and_leaves_no_temporary_files() -> None:
    shared = server.shared_server("--owners", "browser")
    (folder,) = shared.temporary.glob("reprise-*")
    shared.signal(signal.SIGTERM)
    assert shared.wait_for_exit() in (0, 130), "the exit was not clean"
    assert not folder.exists()
    assert list(shared.temporary.iterdir()) == [], "Gradio's folders were in it"
    assert guard.escapes(Path(os.environ["REPRISE_ATTACK_FOLDER"])) == []
