"""Files that somebody named or sent, read within bounds: regular files alone, and JSON of a known shape.

Opening a pipe waits for a writer, reading a device may never end or change something, and a few bytes of JSON can claim
any depth. Messages name a file by its last part: they are shown to people who do not know this machine's folders.
"""

import itertools
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from engine.errors import InvalidConfig, ReleaseIncomplete, UnreadableFile

MAX_CLIP_FILE_BYTES = 1 << 30  # more than 90 seconds of what anybody records
MAX_JSON_BYTES = 4 << 20
MAX_JSON_DEPTH = 16
MAX_JSON_PARTS = 1_000  # objects and lists in one file

_TEXT = re.compile(rb'"(?:[^"\\]+|\\.)*"?', re.DOTALL)  # one without its end, too: else the next would be tried
_BRACKETS = re.compile(rb"[\[\]{}]")


def open_regular(path: str | Path, most: int) -> BinaryIO:
    """A regular file of at most `most` bytes, open for reading.

    Raises UnreadableFile for what is missing, larger, or no regular file: a folder, a pipe, a device, a socket. None
    of those is ever opened.
    """
    name = Path(path).name or str(path)
    try:
        _check_regular(Path(path).stat(), name, most)
        # The file may have been replaced since: a pipe must not block, and what was opened is checked once more.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except UnreadableFile:
        raise
    except FileNotFoundError as error:
        raise UnreadableFile(f"The file {name} cannot be opened: there is none.") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise UnreadableFile(f"The file {name} cannot be opened: {why or 'its name is none'}.") from error
    file = os.fdopen(descriptor, "rb")
    try:
        _check_regular(os.fstat(descriptor), name, most)
    except UnreadableFile:
        file.close()
        raise
    return file


def check_regular(path: str | Path, most: int) -> None:
    """Raises what `open_regular` would, for a file that is needed only later."""
    open_regular(path, most).close()


def read_regular(path: str | Path, most: int) -> bytes:
    """The bytes of a regular file. Raises as `open_regular`, also when the file is longer than it says."""
    with open_regular(path, most) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            data = file.read(min(size, most) + 1)
        except OSError as error:
            raise UnreadableFile(f"The file {Path(path).name} cannot be read: {error.strerror}.") from error
    if len(data) > min(size, most):
        raise UnreadableFile(f"The file {Path(path).name} cannot be read: it is being written to.")
    return data


def _check_regular(status: os.stat_result, name: str, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFile(f"The file {name} cannot be opened: it is {_kind(status.st_mode)}, not a regular file.")
    if status.st_size > most:
        raise UnreadableFile(_too_large(name, most))


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((word for is_kind, word in kinds if is_kind(mode)), "a device")


def _too_large(name: str, most: int) -> str:
    size = f"{most >> 20} MB" if most >= 1 << 20 else f"{most:,} bytes"
    return f"The file {name} is too large: {size} are the most."


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a release.

    Raises ReleaseIncomplete when the file is missing, InvalidConfig when it is not a regular file, larger than 4 MB,
    not an object, or no JSON that `parse_json` takes.
    """
    if not path.exists():
        raise ReleaseIncomplete(f"The model's folder has no {path.name}; it is not a whole model release.")
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
    """The value of JSON in UTF-8.

    Raises ValueError, before anything is built, for more than 1,000 objects and lists or for 16 in each other, which
    take memory and time far beyond their bytes; for keys that stand twice and numbers that JSON does not have.
    """
    brackets = _BRACKETS.findall(_TEXT.sub(b"", data))
    if len(brackets) > 2 * MAX_JSON_PARTS:
        raise ValueError(f"it has more than {MAX_JSON_PARTS:,} objects and lists")
    depths = itertools.accumulate(1 if bracket in (b"[", b"{") else -1 for bracket in brackets)
    if max(depths, default=0) > MAX_JSON_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_JSON_DEPTH}")
    return json.loads(data.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_no_number)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return values


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
