"""A sample of the live attacks on one server with the bundled model; `make attack` runs all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.attack import Attack
from tests.attack.live import gate, owners, programs, server
from tests.attack.running import guard, worker
from tests.attack.running.outcome import WRONG


@pytest.fixture(scope="module", autouse=True)
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server for all attacks of this module."""
    before, here = os.environ.get("REPRISE_ATTACK_FOLDER"), tmp_path_factory.mktemp("live")
    os.environ["REPRISE_ATTACK_FOLDER"] = str(here)
    yield
    server.shared("--owners", "browser").stop()
    server.shared.cache_clear()
    gate._guest.cache_clear()
    if before is None:
        del os.environ["REPRISE_ATTACK_FOLDER"]


def knocks() -> list[gate.Knock]:
    """Every ninth, without those that need a server with a token."""
    return [knock for knock in gate._all() if knock.known][::9]


def test_who_knocks_is_answered_as_promised() -> None:
    for knock in knocks():
        assert_held(gate.GATE, knock)


def test_an_intruder_gets_nothing() -> None:
    for case in owners.INTRUDER.cases(1, 2):
        assert_held(owners.INTRUDER, case)


def test_programs_that_lie_are_answered_in_sentences() -> None:
    for case in programs.PROGRAMS.cases(1, 40):
        assert_held(programs.PROGRAMS, case)


def assert_held(attack: Attack, case: object) -> None:
    outcome = worker.run(attack, case)
    assert outcome.kind not in WRONG, f"{str(case)[:200]}: {outcome.detail}"


def test_nothing_is_written_outside_of_its_folder() -> None:
    assert guard.escapes(Path(os.environ["REPRISE_ATTACK_FOLDER"])) == []
