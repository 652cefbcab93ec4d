"""A SQLite VFS that observes every write, sync, truncation and deletion, and can make them fail.

It is registered in the libsqlite3 of Python's `sqlite3`, before the system's VFS, and observes the files below one
folder. Everything else is passed through.
"""

from __future__ import annotations

import _sqlite3
import ctypes as c
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OK, FULL = 0, 13
MAIN_JOURNAL, WAL = 0x00000800, 0x00080000  # flags of open
IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE = 778, 1034, 1546, 2570

File = c.c_void_p
Write = c.CFUNCTYPE(c.c_int, File, c.c_void_p, c.c_int, c.c_int64)
Truncate = c.CFUNCTYPE(c.c_int, File, c.c_int64)
Sync = c.CFUNCTYPE(c.c_int, File, c.c_int)
Close = c.CFUNCTYPE(c.c_int, File)
Open = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, File, c.c_int, c.POINTER(c.c_int))
Delete = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.c_int)


class Methods(c.Structure):
    """sqlite3_io_methods; unwatched methods are addresses."""

    _fields_ = (
        ("version", c.c_int),
        ("close", c.c_void_p),
        ("read", c.c_void_p),
        ("write", c.c_void_p),
        ("truncate", c.c_void_p),
        ("sync", c.c_void_p),
        ("others", c.c_void_p * 13),
    )


class Vfs(c.Structure):
    """sqlite3_vfs."""

    _fields_ = (
        ("version", c.c_int),
        ("file_size", c.c_int),
        ("max_path", c.c_int),
        ("next", c.c_void_p),
        ("name", c.c_char_p),
        ("data", c.c_void_p),
        ("open", c.c_void_p),
        ("delete", c.c_void_p),
        ("others", c.c_void_p * 16),
    )


@dataclass(frozen=True)
class Operation:
    """An operation on a file. kind: create, write, truncate, sync, delete; or `mark`, added by a test."""

    kind: str
    name: str  # of the file; the text of a mark
    offset: int = 0  # for a truncation, the size
    data: bytes = b""
    with_folder: bool = False  # for a sync or a deletion: whether the folder is synced too


Watcher = Callable[[Operation], int]
"""Called before each operation. A result other than OK is returned to SQLite instead of performing it."""


def _library() -> c.CDLL:
    """The libsqlite3 of Python's own module. Skips the test if its functions are not accessible."""
    library = c.CDLL(getattr(_sqlite3, "__file__", None))
    try:
        library.sqlite3_vfs_find.restype = c.POINTER(Vfs)
        library.sqlite3_vfs_register.argtypes = (c.c_void_p, c.c_int)
        library.sqlite3_vfs_unregister.argtypes = (c.c_void_p,)
    except AttributeError:
        pytest.skip("Python's sqlite3 has SQLite linked in: a test VFS cannot be registered in it")
    return library


class Shim:
    """The system's VFS with some methods replaced. The layout of file objects is unchanged."""

    def __init__(self) -> None:
        self._library = _library()
        self._system = self._library.sqlite3_vfs_find(None)
        self._vfs = Vfs.from_buffer_copy(self._system.contents)
        self._vfs.name, self._vfs.next = b"reprise-attack", None
        self._methods: dict[int, tuple[Methods, list[Any]]] = {}  # by address of the system's methods
        self._names: dict[int, str] = {}  # of open files, by address
        self._new: set[int] = set()  # logs and journals not synced since they were opened
        self._folder = ""
        self._watcher: Watcher | None = None
        system = self._system.contents
        self._kept = [Open(self._open), Delete(self._delete)]
        self._really_open, self._really_delete = Open(system.open), Delete(system.delete)
        self._vfs.open, self._vfs.delete = (c.cast(each, c.c_void_p).value for each in self._kept)

    @contextmanager
    def watching(self, folder: Path, watcher: Watcher) -> Iterator[None]:
        """Install the shim as SQLite's VFS for connections opened in this context."""
        self._folder, self._watcher = str(folder.resolve()), watcher
        self._library.sqlite3_vfs_register(c.byref(self._vfs), 1)
        try:
            yield
        finally:
            self._library.sqlite3_vfs_register(self._system, 1)
            self._library.sqlite3_vfs_unregister(c.byref(self._vfs))
            self._watcher = None

    def _notify(self, operation: Operation) -> int:
        return self._watcher(operation) if self._watcher else OK

    def _open(self, vfs: Any, path: Any, file: Any, flags: int, out: Any) -> int:
        name = self._watched(c.string_at(path) if path else b"")
        new = name is not None and not (Path(self._folder) / name).exists()
        result = self._really_open(vfs, path, file, flags, out)
        if result == OK and name is not None and not name.endswith("-shm"):
            if new:
                self._notify(Operation("create", name))
            self._names[file] = name
            if flags & (MAIN_JOURNAL | WAL):
                self._new.add(file)
            self._exchange(file)
        return result

    def _watched(self, path: bytes) -> str | None:
        text = os.fsdecode(path)
        return os.path.relpath(text, self._folder) if text.startswith(self._folder + os.sep) else None

    def _exchange(self, file: int) -> None:
        """Replace the file's methods; a file of SQLite begins with the address of its methods."""
        place = c.cast(file, c.POINTER(c.c_void_p))
        address = place[0]
        assert address is not None
        if address not in self._methods:
            self._methods[address] = self._watched_methods(address)
        place[0] = c.addressof(self._methods[address][0])

    def _watched_methods(self, address: int) -> tuple[Methods, list[Any]]:
        system = Methods.from_address(address)
        really_write, really_truncate = Write(system.write), Truncate(system.truncate)
        really_sync, really_close = Sync(system.sync), Close(system.close)

        def write(file: int, data: int, size: int, offset: int) -> int:
            code = self._notify(Operation("write", self._names[file], offset, c.string_at(data, size)))
            return code or really_write(file, data, size, offset)

        def truncate(file: int, size: int) -> int:
            return self._notify(Operation("truncate", self._names[file], size)) or really_truncate(file, size)

        def sync(file: int, flags: int) -> int:
            operation = Operation("sync", self._names[file], with_folder=file in self._new)
            self._new.discard(file)
            return self._notify(operation) or really_sync(file, flags)

        def close(file: int) -> int:
            self._names.pop(file, None)
            self._new.discard(file)
            return really_close(file)

        ours = [Close(close), Write(write), Truncate(truncate), Sync(sync)]
        methods = Methods.from_buffer_copy(system)
        methods.close, methods.write, methods.truncate, methods.sync = (c.cast(each, c.c_void_p).value for each in ours)
        return methods, ours

    def _delete(self, vfs: Any, path: bytes, sync: int) -> int:
        name = self._watched(path)
        code = self._notify(Operation("delete", name, with_folder=bool(sync))) if name is not None else OK
        return code or self._really_delete(vfs, path, sync)


_shim: list[Shim] = []


def shim() -> Shim:
    """The shim of this process, kept alive because SQLite may keep its address."""
    if not _shim:
        _shim.append(Shim())
    return _shim[0]
