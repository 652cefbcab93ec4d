"""Folders of servers: each its own, and those of killed ones go."""

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

# A server as far as its folder goes: an upload and a link in it, and the folder's name when all is there.
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
    monkeypatch.setattr(tempfile, "tempdir", str(path))  # this process remembers the one that it had
    return path


@contextmanager
def servers(number: int, link: Path) -> Iterator[list[tuple[subprocess.Popen[str], Path]]]:
    """That many, started at the same moment, with their folders; they end with their standard input."""
    command = [sys.executable, "-c", SERVER, str(link)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(number)]  # type: ignore[call-overload]
    try:
        yield [(server, Path(server.stdout.readline().strip())) for server in started if server.stdout]
    finally:
        for server in started:
            server.communicate()


def test_the_folder_is_private_and_goes_with_the_process(temporary: Path) -> None:
    before = os.environ.get("GRADIO_TEMP_DIR")
    with private_folder() as folder:
        assert os.environ["GRADIO_TEMP_DIR"] == folder
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        (Path(folder) / "deep").mkdir()
        (Path(folder) / "deep" / "clip.wav").touch()
    assert list(temporary.iterdir()) == []
    assert os.environ.get("GRADIO_TEMP_DIR") == before


def test_folders_of_killed_servers_go_at_the_next_start_and_those_of_living_ones_stay(
    temporary: Path, tmp_path: Path
) -> None:
    (kept := tmp_path / "kept").mkdir()
    (kept / "voices.db").touch()
    with servers(6, kept) as running:
        for server, _folder in running[:4]:
            server.send_signal(signal.SIGKILL)
            server.wait()
        assert len(list(temporary.iterdir())) == 6, "what is killed cannot clear up"
        with servers(2, kept) as new:  # at once, so that each also sees the other's folder as it is made
            left = {folder for _, folder in running[4:] + new}
            assert set(temporary.iterdir()) == left
            for folder in left:
                assert (folder / "deep" / "clip.wav").exists()
    assert list(temporary.iterdir()) == []
    assert (kept / "voices.db").exists(), "links are not followed"


def _left(folder: Path, mode: int = 0o700) -> Path:
    """A folder as a killed server leaves it."""
    folder.mkdir(mode)
    folder.chmod(mode)
    (folder / LOCK).touch(0o600)
    (folder / "clip.wav").touch()
    return folder


def test_nothing_else_is_swept(temporary: Path, tmp_path: Path) -> None:
    elsewhere = _left(tmp_path / "reprise-elsewher")
    (temporary / "reprise-00000001").symlink_to(elsewhere)
    (temporary / "reprise-00000002").touch()
    _left(temporary / "reprise-00000003", 0o750)
    _left(temporary / "reprise-my-notes")
    _left(temporary / "other-00000004")
    (_left(temporary / "reprise-projects") / LOCK).unlink()
    (_left(temporary / "reprise-00000005") / LOCK).unlink()
    (temporary / "reprise-00000005" / LOCK).symlink_to(elsewhere / LOCK)
    (_left(temporary / "reprise-00000006") / LOCK).unlink()
    os.mkfifo(temporary / "reprise-00000006" / LOCK)
    before = sorted(temporary.rglob("*"))
    gone = _left(temporary / "reprise-00000007")
    (temporary / "reprise-00000008").mkdir(0o700)  # of one that was killed at once
    sweep()
    assert not gone.exists()
    assert sorted(temporary.rglob("*")) == before
    assert (elsewhere / "clip.wav").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_other_users_folders_are_not_swept(temporary: Path) -> None:
    folder = _left(temporary / "reprise-00000001")
    os.chown(folder, 4321, 4321)
    sweep()
    assert (folder / "clip.wav").exists()


def test_a_deletion_that_breaks_off_is_finished_next_time(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _left(temporary / "reprise-00000001")
    (folder / "deep").mkdir()

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", broken)
        sweep()
    assert (folder / LOCK).exists()
    sweep()
    assert not folder.exists()


def test_many_starts_and_sweeps_at_once_never_take_a_living_folder(temporary: Path) -> None:
    def live(number: int) -> None:
        for _ in range(25):
            folder, lock = folders._locked_folder()
            (folder / "clip.wav").touch()
            sweep()
            assert (folder / "clip.wav").exists()
            if number % 2:
                folders._delete(folder)
            os.close(lock)  # half of them are killed

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(8)))
    sweep()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("before_file", [True, False])
def test_a_sweep_in_the_midst_of_a_start_costs_only_a_new_folder(
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
