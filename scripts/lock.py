"""Write requirements-lock.txt: this environment's versions of all requirements and what they need.

Run the tests first: make and the container install these versions.

python -m scripts.lock
"""

import argparse
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-extra.txt", "requirements-dev.txt", "requirements-lab.txt")
HEAD = "# The versions that make and the container install; written by `python -m scripts.lock`.\n"


def read_requirements(path: Path) -> list[Requirement]:
    """Read a file of requirements, without the files that it includes."""
    lines = [line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-r")]


def applies(wanted: Requirement, extras: frozenset[str] = frozenset()) -> bool:
    """Return whether this machine needs the package. extras: of the package that requires it."""
    return wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in {"", *extras})


def is_installed(name: str) -> bool:
    """Return whether this environment has the package."""
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def locked() -> dict[str, str]:
    """Return the versions of the requirements and their dependencies in this environment, by name."""
    open_ = [wanted for file in FILES for wanted in read_requirements(ROOT / file)]
    if missing := [wanted.name for wanted in open_ if applies(wanted) and not is_installed(wanted.name)]:
        sys.exit(f"Run `make upgrade` or `make .venv/.lab` first: {', '.join(missing)} is not installed here.")
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_:
        wanted = open_.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if not is_installed(name):
            continue
        found[name] = version(name).partition("+")[0]
        open_ += [inner for inner in map(Requirement, requires(name) or []) if applies(inner, extras)]
    return found


def main() -> None:
    """Write the file."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    text = "".join(f"{name}=={number}\n" for name, number in sorted(locked().items()))
    (ROOT / "requirements-lock.txt").write_text(HEAD + text, "utf-8")


if __name__ == "__main__":
    main()
