"""Sounds outside the database: a folder or an S3-compatible store, through fsspec."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from storage import durable_files
from storage.errors import DatabaseUnavailable
from storage.validation import new_id

log = logging.getLogger(__name__)

Result = TypeVar("Result")

CACHE_BYTES = 64 << 20  # of the most recently read objects
_CREDENTIALS = re.compile(r"://[^/@]*@")
_FAILURES = 5  # in a row, after which no further object is deleted
# By default, botocore adds checksums in a form that some S3-compatible stores refuse, such as Oracle's and Alibaba's.
os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")


@dataclass(frozen=True)
class StoredSound:
    """A sound as stored in a row: its bytes, or no bytes and the name and size (bytes) of its object."""

    data: bytes
    object: str | None = None
    size: int = 0


class ObjectStore:
    """A folder in any file system supported by fsspec. Objects never change. Thread-safe.

    location: the URL, for error details, without a user's name and password.
    """

    def __init__(self, url: str | Path) -> None:
        """url: a path, or a URL such as `s3://bucket/folder`. Raises DatabaseUnavailable."""
        self.location = _CREDENTIALS.sub("://***@", str(url))
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0
        self._lock = threading.Lock()
        place = str(url) if "://" in str(url) else str(durable_files.expanded(url).absolute())
        try:
            self._files, self._folder = url_to_fs(place)
        except ImportError as error:
            raise DatabaseUnavailable("database.no_store_driver", detail=f"{self.location}: {error}") from error
        except ValueError as error:
            raise DatabaseUnavailable("database.bad_store", detail=f"{self.location}: {error}") from error
        except Exception as error:  # some file systems connect at once; each has its own exceptions
            raise self._failed(error) from error
        self._is_local = isinstance(self._files, LocalFileSystem)

    def check(self) -> None:
        """Check that objects can be written and deleted. A full store passes: data can be deleted from it.

        Raises DatabaseUnavailable.
        """
        name = new_id()
        try:
            self.write(name, b"check")
        except DatabaseUnavailable as error:
            if not isinstance(error.__cause__, OSError) or not durable_files.is_full(error.__cause__):
                raise
        self.delete(name)

    def write(self, name: str, data: bytes) -> None:
        """Write an object; in a local folder it is on the disk afterwards. Raises DatabaseUnavailable."""
        path = self._path(name)

        def write() -> None:
            if self._is_local:
                durable_files.write(Path(path), data)
                return
            try:
                self._files.pipe_file(path, data)
            except FileNotFoundError:  # in S3 the bucket is missing: s3fs looks for it, or creates it, in `makedirs`
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._files.pipe_file(path, data)

        self._translated(write)

    def read(self, name: str) -> bytes:
        """Return an object. Raises DatabaseUnavailable, also for a missing one."""
        with self._lock:
            if (known := self._cache.get(name)) is not None:
                self._cache.move_to_end(name)
                return known
        data = self._translated(lambda: bytes(self._files.cat_file(self._path(name))))
        with self._lock:
            if self._cache.setdefault(name, data) is data:
                self._cached += len(data)
            while self._cached > CACHE_BYTES:
                self._cached -= len(self._cache.popitem(last=False)[1])
        return data

    def delete(self, name: str) -> None:
        """Delete an object, which may be missing or, in a local folder, unfinished. Raises DatabaseUnavailable."""
        path = self._path(name)
        with self._lock:
            self._cached -= len(self._cache.pop(name, b""))

        def delete() -> None:
            if self._is_local:
                durable_files.delete(Path(path), Path(path + durable_files.UNFINISHED))
                return
            with suppress(FileNotFoundError):
                self._files.rm_file(path)

        self._translated(delete)

    def delete_all(self, names: Iterable[str]) -> list[str]:
        """Delete objects, which may be missing; return the deleted ones.

        An object that cannot be deleted is skipped. After several of them in a row the store is taken to be
        unavailable, and the rest is skipped, too.
        """
        deleted: list[str] = []
        failures = 0  # in a row
        for name in names:
            try:
                self.delete(name)
            except DatabaseUnavailable:  # logged already
                failures += 1
                if failures == _FAILURES:
                    break
            else:
                failures = 0
                deleted.append(name)
        return deleted

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name[:2]}/{name}"  # file systems are slow with many files in one folder

    def _translated(self, work: Callable[[], Result]) -> Result:
        """Raise DatabaseUnavailable for any error: each file system has its own exceptions."""
        try:
            return work()
        except Exception as error:
            failed = self._failed(error)
            log.warning("The store of sounds failed. %s", failed.detail)
            raise failed from error

    def _failed(self, error: Exception) -> DatabaseUnavailable:
        detail = f"{self.location}: {type(error).__name__}: {error}"
        return DatabaseUnavailable("database.store_failed", detail=detail)


Info = dict[Any, Any]  # `Session.info`
_STORE = "object store"


def info_of(store: ObjectStore | None) -> Info:
    """Return the `info` for sessions that read sounds from this store."""
    return {_STORE: store}


def read_sound(info: Info, data: bytes, name: str | None) -> bytes:
    """Return a sound. data, name: as in its row. info: of the session. Raises DatabaseUnavailable."""
    if name is None:
        return data
    store: ObjectStore | None = info.get(_STORE)
    if store is None:
        raise DatabaseUnavailable("database.no_store")
    return store.read(name)
