"""The `Attack` type, its errors, and discovery of attacks."""

import importlib
import inspect
import pkgutil
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import tests.attack

WHOLE = 2_000  # cases of an attack that is a module
PORTIONS, PORTION = 15, 20  # of an attack that counts its own tries


class Broken(Exception):
    """A promise was broken. The message names it and the observed behaviour."""


class Skipped(Exception):
    """The attack cannot run on this machine. The message names what is missing."""


@dataclass(frozen=True)
class Attack:
    """Hostile cases, and the function that runs one.

    cases(seed, count): picklable values, the same for the same seed; the n-th must not depend on `count`.
    run(case): returns if the case was served or refused as promised; an int is the number of tries in the case.
        Errors of the tree (`engine.errors`) count as refused. Any other error is a finding, except `Skipped`.
    count: cases in a whole run. seconds, megabytes: limits of one case; no memory limit if None. The seconds are
        processor time, independent of the machine's load, or wall-clock time where the attack is `alone`.
    alone: run the cases sequentially in one process while no other attack runs, as for attacks that need a server.
    """

    name: str
    what: str
    cases: Callable[[int, int], Iterable[Any]]
    run: Callable[[Any], int | None]
    count: int
    seconds: float = 5.0
    megabytes: float | None = 300.0
    alone: bool = False


def randoms(seed: int, count: int) -> Iterator[random.Random]:
    """A random generator for each case, independent of the number of cases."""
    for index in range(count):
        yield random.Random(f"{seed}:{index}")


def once(seed: int, count: int) -> Iterator[int]:
    """Case numbers for an attack whose cases do not depend on the seed."""
    yield from range(count)


def all_attacks() -> dict[str, Attack]:
    """All attacks of this package by name, in the order of their modules. Raises ValueError for two of one name."""
    attacks: dict[str, Attack] = {}
    for module in _modules():
        for attack in _attacks_of(module):
            if attacks.setdefault(attack.name, attack) is not attack:
                raise ValueError(f"There are two attacks called {attack.name}.")
    return attacks


def _attacks_of(module: ModuleType) -> Iterator[Attack]:
    """The attacks of a module. A module with `cases` and `run`, or with `run(count, seed)`, is one attack."""
    values = vars(module)
    yield from (value for value in values.values() if isinstance(value, Attack))
    run, cases = values.get("run"), values.get("cases")
    name, what = module.__name__.rpartition(".")[2].replace("_", " "), _first_phrase(module)
    if not inspect.isfunction(run) or run.__module__ != module.__name__:
        return
    if cases is not None:
        yield Attack(name, what, cases, run, WHOLE)
    elif list(inspect.signature(run).parameters)[:2] == ["count", "seed"]:
        yield Attack(f"library {name}", what, _portions, partial(_portion, run), PORTIONS, 300.0, None)


def _portions(seed: int, count: int) -> Iterator[int]:
    """Seeds for the portions of an attack that counts its own tries."""
    yield from range(seed * 1_000, seed * 1_000 + count)


def _portion(run: Callable[..., Any], seed: int) -> int:
    """Run one portion: `run` returns its number of tries and the broken promises."""
    done = run(PORTION, seed)
    if done.broken:
        raise Broken("\n".join(done.broken))
    return int(done.tried)


def _first_phrase(module: ModuleType) -> str:
    line = (module.__doc__ or module.__name__).strip().partition("\n")[0]
    return line.partition(": ")[0].rstrip(".:")


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(tests.attack.__path__, f"{tests.attack.__name__}."):
        if not info.name.rpartition(".")[2].startswith(("test_", "__", "conftest")):
            yield importlib.import_module(info.name)
