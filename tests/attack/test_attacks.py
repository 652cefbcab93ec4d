"""A sample of each attack that needs no server; `make attack` runs all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.attack import Attack, found
from tests.attack.running import worker
from tests.attack.running.outcome import WRONG

SLICE = 8  # cases of each attack
# Take longer; tests of the parsers, and tests/attack/storage/test_storage_attack.py, hold what these look for.
SPARED = ("fuzz", "texts", "library")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


@pytest.mark.parametrize(
    "attack",
    [each for each in found().values() if not each.alone and not each.name.startswith(SPARED)],
    ids=lambda each: each.name,
)
def test_what_is_hostile_is_served_or_refused_in_a_sentence(attack: Attack, tmp_path: Path) -> None:
    for index, case in enumerate(attack.cases(1, SLICE)):
        place = tmp_path / str(index)
        place.mkdir()
        os.chdir(place)
        outcome = worker.run(attack, case)
        assert outcome.kind not in WRONG, f"{attack.name} {index}: {outcome.detail}"
