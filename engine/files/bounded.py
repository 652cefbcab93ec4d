"""Bounded reading of untrusted files: regular files only, and JSON of limited size and depth.

Opening a pipe waits for a writer, reading a device may never end or may have side effects, and a few bytes of JSON can
nest deeply. Messages show only the last part of a path: users do not know this machine's folders.
"""

import itertools
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from engine.errors import InvalidConfig, ReleaseIncomplete, UnreadableFile
from engine.messages import UserMessage

MAX_CLIP_FILE_BYTES = 1 << 30  # more than 90 seconds in any format
MAX_JSON_BYTES = 4 << 20
MAX_JSON_DEPTH = 16
MAX_JSON_PARTS = 1_000  # objects and lists in one file

_TEXT = re.compile(rb'"(?:[^"\\]+|\\.)*"?', re.DOTALL)  # also unterminated text, or the next quote would be tried
_BRACKETS = re.compile(rb"[\[\]{}]")


def open_regular(path: str | Path, most: int) -> BinaryIO:
    """Open a regular file of at most `most` bytes for reading.

    Raises UnreadableFile for a file that is missing, larger, or not regular: folders, pipes, devices and sockets are
    never opened.
    """
    name = Path(path).name or str(path)
    try:
        _check_regular(Path(path).stat(), name, most)
        # The file may be replaced in between: a pipe must not block, and the opened file is checked again.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except UnreadableFile:
        raise
    except FileNotFoundError as error:
        raise UnreadableFile("file.missing", file=name) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise UnreadableFile("file.unopened", file=name, why=why or "its name is not valid") from error
    file = os.fdopen(descriptor, "rb")
    try:
        _check_regular(os.fstat(descriptor), name, most)
    except UnreadableFile:
        file.close()
        raise
    return file


def check_regular(path: str | Path, most: int) -> None:
    """Check a file that is read later. Raises as `open_regular` does."""
    open_regular(path, most).close()


def read_regular(path: str | Path, most: int) -> bytes:
    """Read a regular file. Raises as `open_regular` does, also when the file is longer than its status says."""
    with open_regular(path, most) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            data = file.read(min(size, most) + 1)
        except OSError as error:
            raise UnreadableFile("file.unread", file=Path(path).name, why=str(error.strerror)) from error
    if len(data) > min(size, most):
        raise UnreadableFile("file.growing", file=Path(path).name)
    return data


def _check_regular(status: os.stat_result, name: str, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFile("file.not_regular", file=name, kind=_kind(status.st_mode))
    if status.st_size > most:
        raise UnreadableFile("file.large", file=name, most=most >> 20)


def _kind(mode: int) -> UserMessage:
    kinds = ((stat.S_ISDIR, "file.folder"), (stat.S_ISFIFO, "file.pipe"), (stat.S_ISSOCK, "file.socket"))
    return UserMessage(next((key for is_kind, key in kinds if is_kind(mode)), "file.device"))


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file of a release.

    Raises ReleaseIncomplete when the file is missing, InvalidConfig when it is not a regular file, larger than 4 MB,
    not an object, or refused by `parse_json`.
    """
    if not path.exists():
        raise ReleaseIncomplete("release.no_file", file=path.name)
    try:
        data = read_regular(path, MAX_JSON_BYTES)
        values = parse_json(data)
    except UnreadableFile as error:
        raise InvalidConfig(str(error)) from error
    except ValueError as error:
        raise InvalidConfig(f"The model's {path.name} is not valid JSON ({error}); download it again.") from error
    if not isinstance(values, dict):
        raise InvalidConfig(f"The model's {path.name} does not hold a JSON object; download it again.")
    return values


def parse_json(data: bytes) -> Any:
    """Parse JSON in UTF-8.

    Raises ValueError, before anything is built, for more than 1,000 objects and lists or more than 16 nested ones,
    which would take far more memory and time than their bytes; also for duplicate keys and for NaN and infinities.
    """
    if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH:  # fewer are within both limits, even outside of strings
        _check_parts(data)
    return json.loads(data.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_no_number)


def _check_parts(data: bytes) -> None:
    brackets = _BRACKETS.findall(_TEXT.sub(b"", data))
    if len(brackets) > 2 * MAX_JSON_PARTS:
        raise ValueError(f"it has more than {MAX_JSON_PARTS:,} objects and lists")
    depths = itertools.accumulate(1 if bracket in (b"[", b"{") else -1 for bracket in brackets)
    if max(depths, default=0) > MAX_JSON_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_JSON_DEPTH}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return values


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
