"""Atomic replacement of files: only the file that was opened is replaced, and failures leave it unchanged."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import InvalidInput
from engine.files.replacement import opened, read, replace, target_of

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and make devices")


def test_new_file_has_the_default_mode(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    assert replace(target_of(tmp_path / "a"), b"first")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert {path.name for path in tmp_path.iterdir()} == {"a", "other"}


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640, 0o664])
def test_replacement_keeps_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"first")
    path.chmod(mode)
    assert replace(target_of(path), b"second")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"second", mode)


@as_root
def test_replacement_keeps_owner_and_group(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"first")
    os.chown(path, 4321, 1234)
    path.chmod(0o640)
    assert replace(target_of(path), b"second")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (4321, 1234, 0o640)


@as_root
def test_file_is_not_replaced_if_owner_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"first")
    os.chown(path, 4321, 1234)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(PermissionError):
        replace(target_of(path), b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path], "no temporary file is left"


def test_replacement_through_links_replaces_their_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, one, two = tmp_path / "real" / "a", tmp_path / "one", tmp_path / "two"
    file.write_bytes(b"first")
    one.symlink_to("real/a")
    two.symlink_to(one)
    assert replace(target_of(two), b"second")
    assert one.is_symlink()
    assert two.is_symlink()
    assert not file.is_symlink()
    assert file.read_bytes() == b"second"
    assert list((tmp_path / "real").iterdir()) == [file]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)  # paths of sockets are limited to 107 bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _device(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path.mkdir, "a folder"),
        (os.mkfifo, "a pipe"),
        (_socket, "a socket"),
        (_dangling, "a link to nothing"),
        (_loop, "cannot be reached"),
        pytest.param(_device, "a device", marks=as_root),
    ],
)
def test_only_regular_files_can_be_replaced(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    make(tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    before = (tmp_path / "a").lstat()
    for name in ("a", "link"):
        with pytest.raises(InvalidInput, match=says):
            target_of(tmp_path / name)
    assert (tmp_path / "a").lstat().st_ino == before.st_ino
    assert stat.S_IFMT((tmp_path / "a").lstat().st_mode) == stat.S_IFMT(before.st_mode)


def test_target_in_missing_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for path in (tmp_path / "nowhere" / "a", tmp_path / "a" / "b"):
        with pytest.raises(InvalidInput):
            target_of(path)


def test_file_changed_meanwhile_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"first")
    target = target_of(path)
    path.unlink()
    os.mkfifo(path)
    assert not replace(target, b"second")
    with pytest.raises(InvalidInput, match="changed"), opened(target):
        pass
    assert stat.S_ISFIFO(path.stat().st_mode)

    new = target_of(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"of another program")
    assert not replace(new, b"second")
    assert (tmp_path / "b").read_bytes() == b"of another program"
    assert {found.name for found in tmp_path.iterdir()} == {"a", "b"}


def test_read_rejects_larger_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read(target_of(tmp_path / "a"), 5) == b"12345"
    with pytest.raises(InvalidInput, match="larger than 4 bytes"):
        read(target_of(tmp_path / "a"), 4)


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    with pytest.raises(TypeError):
        replace(target_of(tmp_path / "a"), "no bytes")  # type: ignore[arg-type]
    assert (tmp_path / "a").read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
