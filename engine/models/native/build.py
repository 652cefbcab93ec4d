"""Builds rows.c with the machine's C compiler and loads it. The library is cached by source, compiler and processor."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from engine.errors import first_line
from engine.files.cache_folder import cache_folder

SOURCE = Path(__file__).with_name("rows.c")
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-ffp-contract=off", "-shared", "-fPIC")
_TORCH = Path(torch.__file__).parent / "lib"
_COMPILER_TIMEOUT = 120  # seconds for the compiler

_lock = threading.Lock()  # operators are registered once in a process


class NoNativeCode(Exception):
    """The library cannot be built or loaded here. Its message is a phrase that says why."""


def library() -> ctypes.CDLL:
    """Return the library, built if necessary, with its operators registered. Raises NoNativeCode."""
    with _lock:
        found = _found()
    if isinstance(found, str):
        raise NoNativeCode(found)
    return found


@cache
def _found() -> ctypes.CDLL | str:
    """Return the library, or why there is none: a compiler that fails or hangs is not run again by this process."""
    try:
        return _loaded()
    except NoNativeCode as error:
        return str(error)


def _loaded() -> ctypes.CDLL:
    compiler = _compiler()
    try:
        loaded = ctypes.CDLL(str(_built(*compiler)))
    except (OSError, subprocess.SubprocessError) as error:
        raise NoNativeCode(first_line(error)) from error
    if loaded.reprise_register():
        raise NoNativeCode("PyTorch does not take the operators")
    return loaded


def _compiler() -> list[str]:
    """Return the command of the C compiler, perhaps with a launcher and options: `ccache gcc -m64`."""
    given = os.environ.get("CC", "")
    command = [given] if shutil.which(given) else given.split() or ["cc"]
    found = shutil.which(command[0])
    if found is None:
        raise NoNativeCode("no C compiler")
    return [found, *command[1:]]


def built_folder() -> Path:
    """Return the folder of the built libraries."""
    return cache_folder() / "native"


def _built(*compiler: str) -> Path:
    """compiler: its command."""
    folder = built_folder()
    path = folder / f"rows-{_key(compiler)}.so"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / path.name
        command = [*compiler, *_FLAGS, str(SOURCE), "-o", str(made), f"-L{_TORCH}", "-ltorch_cpu", "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_COMPILER_TIMEOUT)
        except subprocess.CalledProcessError as error:
            raise NoNativeCode(f"the C compiler failed: {error.stderr.strip().partition(chr(10))[0]}") from error
        made.replace(path)  # atomic: other processes may build it at the same time
    return path


def _key(compiler: Sequence[str]) -> str:
    """Return a digest of all that determines the library."""
    version = subprocess.run(
        [*compiler, "--version"], check=True, capture_output=True, text=True, timeout=_COMPILER_TIMEOUT
    )
    parts = (
        SOURCE.read_text("utf-8"),
        *compiler[1:],
        *_FLAGS,
        torch.__version__,
        version.stdout,
        platform.machine(),
        _processor(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """Return what is known of the processor's instructions, which `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
