"""What all commands of training share: their folder, their errors, and checked numbers on the command line."""

import argparse
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import RepriseError

DEFAULT_WORK = Path.home() / ".cache/reprise/training"
"""The folder for everything that training makes."""


class TrainingError(RuntimeError):
    """A command cannot go on with its folders or options; the message says what to change."""


def training_device() -> str:
    """Return the device of all trainings: `cuda`, which then multiplies in TF32, if there is one, else `cpu`."""
    import torch  # takes seconds, and synthesizing speech does not need it

    if not torch.cuda.is_available():
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"


def loader_workers(device: str) -> int:
    """Return the number of processes that prepare batches: none on a CPU, whose cores the training itself uses."""
    return 0 if device == "cpu" else max(1, min(12, len(os.sched_getaffinity(0)) - 2))


@contextmanager
def messages_only() -> Iterator[None]:
    """End the program with the message alone for errors that its user can correct."""
    try:
        yield
    except (TrainingError, RepriseError) as error:
        raise SystemExit(str(error)) from None
    except OSError as error:
        if error.filename is None:
            raise
        raise SystemExit(f"{error.filename}: {error.strerror}.") from None


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
