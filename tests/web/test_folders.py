"""Temporary folders of servers: each server has its own, and those of killed servers are deleted."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.paths import ROOT
from web import folders
from web.folders import LOCK, private_folder, sweep

# Stands in for a server: creates its folder with an upload and a link in it, then prints the folder's name.
SERVER = """
import os, sys, time
from web.folders import private_folder
with private_folder() as folder:
    os.mkdir(f"{folder}/deep")
    open(f"{folder}/deep/clip.wav", "w").close()
    os.symlink(sys.argv[1], f"{folder}/link")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of this test and its processes."""
    (path := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", str(path))  # tempfile caches the folder in this process
    return path


@contextmanager
def servers(number: int, link: Path) -> Iterator[list[tuple[subprocess.Popen[str], Path]]]:
    """Start `number` servers at once; yield them with their folders. They end when their standard input closes."""
    command = [sys.executable, "-c", SERVER, str(link)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(number)]  # type: ignore[call-overload]
    try:
        yield [(server, Path(server.stdout.readline().strip())) for server in started if server.stdout]
    finally:
        for server in started:
            server.communicate()


def test_folder_is_private_and_deleted_on_exit(temporary: Path) -> None:
    before = os.environ.get("GRADIO_TEMP_DIR")
    with private_folder() as folder:
        assert os.environ["GRADIO_TEMP_DIR"] == folder
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        (Path(folder) / "deep").mkdir()
        (Path(folder) / "deep" / "clip.wav").touch()
    assert list(temporary.iterdir()) == []
    assert os.environ.get("GRADIO_TEMP_DIR") == before


def test_next_start_deletes_only_folders_of_killed_servers(temporary: Path, tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    (kept / "voices.db").touch()
    with servers(6, kept) as running:
        for server, _folder in running[:4]:
            server.send_signal(signal.SIGKILL)
            server.wait()
        assert len(list(temporary.iterdir())) == 6, "killed servers leave their folders"
        with servers(2, kept) as new:  # both at once, so that each sees the other's folder while it is created
            left = {folder for _, folder in running[4:] + new}
            assert set(temporary.iterdir()) == left
            for folder in left:
                assert (folder / "deep" / "clip.wav").exists()
    assert list(temporary.iterdir()) == []
    assert (kept / "voices.db").exists(), "links are not followed"


def _leftover_folder(folder: Path, mode: int = 0o700) -> Path:
    """Create a folder as a killed server leaves it."""
    folder.mkdir(mode)
    folder.chmod(mode)
    (folder / LOCK).touch(0o600)
    (folder / "clip.wav").touch()
    return folder


def test_sweep_leaves_everything_else(temporary: Path, tmp_path: Path) -> None:
    elsewhere = _leftover_folder(tmp_path / "reprise-elsewher")
    (temporary / "reprise-00000001").symlink_to(elsewhere)
    (temporary / "reprise-00000002").touch()
    _leftover_folder(temporary / "reprise-00000003", 0o750)
    _leftover_folder(temporary / "reprise-my-notes")
    _leftover_folder(temporary / "other-00000004")
    (_leftover_folder(temporary / "reprise-projects") / LOCK).unlink()
    (_leftover_folder(temporary / "reprise-00000005") / LOCK).unlink()
    (temporary / "reprise-00000005" / LOCK).symlink_to(elsewhere / LOCK)
    (_leftover_folder(temporary / "reprise-00000006") / LOCK).unlink()
    os.mkfifo(temporary / "reprise-00000006" / LOCK)
    before = sorted(temporary.rglob("*"))
    gone = _leftover_folder(temporary / "reprise-00000007")
    (temporary / "reprise-00000008").mkdir(0o700)  # of a server that was killed immediately
    sweep()
    assert not gone.exists()
    assert sorted(temporary.rglob("*")) == before
    assert (elsewhere / "clip.wav").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_sweep_leaves_folders_of_other_users(temporary: Path) -> None:
    folder = _leftover_folder(temporary / "reprise-00000001")
    os.chown(folder, 4321, 4321)
    sweep()
    assert (folder / "clip.wav").exists()


def test_interrupted_deletion_is_finished_by_the_next_sweep(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _leftover_folder(temporary / "reprise-00000001")
    (folder / "deep").mkdir()

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", broken)
        sweep()
    assert (folder / LOCK).exists()
    sweep()
    assert not folder.exists()


def test_concurrent_starts_and_sweeps_keep_live_folders(temporary: Path) -> None:
    def live(number: int) -> None:
        for _ in range(25):
            folder, lock = folders._locked_folder()
            (folder / "clip.wav").touch()
            sweep()
            assert (folder / "clip.wav").exists()
            if number % 2:
                folders._delete(folder)
            os.close(lock)  # half of them keep the folder, as if killed

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(8)))
    sweep()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("before_file", [True, False])
def test_sweep_during_a_start_only_causes_a_new_folder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, before_file: bool
) -> None:
    place = (os, "open") if before_file else (folders, "_lock")
    real = getattr(*place)
    swept: list[Path] = []

    def late(*arguments: object) -> object:
        if not swept:
            swept.extend(temporary.iterdir())
            sweep()
        return real(*arguments)

    monkeypatch.setattr(*place, late)
    folder, lock = folders._locked_folder()
    assert swept != [folder]
    assert list(temporary.iterdir()) == [folder]
    assert list(folder.iterdir()) == [folder / LOCK]
    folders._delete(folder)
    os.close(lock)
