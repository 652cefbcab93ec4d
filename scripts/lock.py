"""Write requirements-lock.txt: this environment's versions of all run-time requirements and what they need.

python -m scripts.lock
"""

import argparse
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-extra.txt")
HEAD = "# The versions that the container is built with; written by `python -m scripts.lock`.\n"


def locked() -> dict[str, str]:
    """Return the versions of the requirements and their dependencies in this environment, by name."""
    lines = [line for file in FILES for line in (ROOT / file).read_text("utf-8").splitlines()]
    open_ = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_:
        wanted = open_.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            continue
        for text in requires(name) or []:
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                open_.append(inner)
    return found


def main() -> None:
    """Write the file."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    text = "".join(f"{name}=={number}\n" for name, number in sorted(locked().items()))
    (ROOT / "requirements-lock.txt").write_text(HEAD + text, "utf-8")


if __name__ == "__main__":
    main()
