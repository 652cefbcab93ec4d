"""Programs that run beside a test."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str], keep: Sequence[int] = ()
) -> Iterator[None]:
    """Run a program, whose output goes to `log`, during the block. keep: file descriptors that it inherits."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, pass_fds=keep)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
