"""A sample of each attack that needs no server; `make attack` runs all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.attack import Attack, all_attacks
from tests.attack.running import worker
from tests.attack.running.outcome import WRONG

SLICE = 6  # cases of each attack
# Tests of the parsers, of clips, releases, voice archives and the library run a sample of these themselves.
EXCLUDED = ("fuzz", "texts", "library", "clips", "releases", "voices")


@pytest.fixture(autouse=True)
def temporary_working_folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


@pytest.mark.parametrize(
    "attack",
    [each for each in all_attacks().values() if not each.alone and not each.name.startswith(EXCLUDED)],
    ids=lambda each: each.name,
)
def test_hostile_cases_are_served_or_rejected(attack: Attack, tmp_path: Path) -> None:
    for index, case in enumerate(attack.cases(1, SLICE)):
        place = tmp_path / str(index)
        place.mkdir()
        os.chdir(place)
        outcome = worker.run(attack, case)
        assert outcome.kind not in WRONG, f"{attack.name} {index}: {outcome.detail}"
