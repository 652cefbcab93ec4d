"""Shared parts of the training commands: working folder, its JSON files, errors, argument types."""

import argparse
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import RepriseError

DEFAULT_WORK = Path.home() / ".cache/reprise/training"
"""The folder for everything that training makes."""


class TrainingError(RuntimeError):
    """A command cannot go on with its folders or options; the message says what to change."""


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def origin_of(source: Path, work: Path) -> str:
    """Name the folder `source` that a training continues from, in its checkpoints.

    The name is relative to the working folder if `source` is in it, so that a moved or copied folder can be resumed.
    """
    source, work = source.resolve(), work.resolve()
    return str(source.relative_to(work) if source.is_relative_to(work) else source)


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a working folder. Raises TrainingError for a damaged file."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TrainingError(f"{file} is damaged: it holds no JSON object. Restore it, or use another folder.")
    return found


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """Give a file to write within the `with` block, which then becomes `file`.

    A kill or an error at any moment leaves the previous file intact.
    """
    unfinished = file.with_name(f"unfinished-{file.name}")
    yield unfinished
    unfinished.replace(file)


def write_json(file: Path, values: dict[str, Any]) -> None:
    """Write a JSON object atomically."""
    with replaced(file) as unfinished:
        unfinished.write_text(json.dumps(values, indent=1) + "\n", "utf-8")


@contextmanager
def exit_with_message() -> Iterator[None]:
    """End the program with the message alone for errors that its user can correct, and silently for Ctrl-C."""
    try:
        yield
    except (TrainingError, RepriseError) as error:
        raise SystemExit(str(error)) from None
    except OSError as error:
        if error.filename is None:
            raise
        raise SystemExit(f"{error.filename}: {error.strerror}.") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def positive(text: str) -> float:
    """Parse a number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def positive_int(text: str) -> int:
    """Parse a whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number
