"""Resources that commands open, and combinations of options that are rejected."""

import asyncio
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Event

import pytest

from cli import context
from cli.context import CommandContext, parse_replicas, require
from engine.errors import InvalidOption
from storage.errors import DatabaseUnavailable
from studio.bounded_pool import BoundedPool
from studio.engines.model_manager import ModelManager
from tests.storage.making import voice
from tests.support.fake_engine import FakeEngine
from tests.support.looping import run
from tests.support.waiting import TIMEOUT


@pytest.mark.parametrize(("text", "replicas"), [("1", (1, 1)), ("2-8", (2, 8)), ("3-3", (3, 3))])
def test_replica_ranges_are_parsed(text: str, replicas: tuple[int, int]) -> None:
    assert parse_replicas(text) == replicas


@pytest.mark.parametrize("text", ["", "0", "8-2", "1-", "-3", "two", "1-2-3"])
def test_invalid_replica_ranges_are_rejected(text: str) -> None:
    with pytest.raises(InvalidOption, match="not a valid number of replicas"):
        parse_replicas(text)


def test_cluster_without_ray_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "has_package", lambda _name, _least: False)
    with (
        pytest.raises(InvalidOption, match="needs the package “ray”"),
        CommandContext("bundled", "cpu", cluster="auto").engine(),
    ):
        pass


def test_outdated_package_is_rejected() -> None:
    require("typer")
    with pytest.raises(InvalidOption, match="needs the package “typer”"):
        require("typer", 99)


def test_space_restores_and_saves_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "ada/reprise")
    monkeypatch.setattr(context, "SPACE_DATA", tmp_path / "data")
    (tmp_path / "data").mkdir()
    for disk in ("first", "second"):  # each start has a new disk
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / disk))
        command = CommandContext("bundled", "cpu")
        with command._saved_storage() as storage:
            if disk == "first":
                storage.voices.add(voice("Ada"))
            assert "Ada" in [record.name for record in storage.voices.list()]


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_snapshots_of_a_file_that_is_named_by_path_or_url(tmp_path: Path, prefix: str) -> None:
    command = CommandContext("bundled", "cpu", f"{prefix}{tmp_path}/voices.db", snapshots=tmp_path / "kept")
    with command._saved_storage() as storage:
        storage.voices.add(voice("Ada"))
    (tmp_path / "voices.db").unlink()
    with command._saved_storage() as storage:
        assert "Ada" in [record.name for record in storage.voices.list()]


def test_folder_of_snapshots_may_be_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell expands the path where a service's file of variables names it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    command = CommandContext("bundled", "cpu", "voices.db", snapshots=Path("~/kept"))
    with command._saved_storage() as storage:
        storage.voices.add(voice("Ada"))
    assert list((tmp_path / "kept").iterdir())


def test_command_before_the_server_restores_the_library(tmp_path: Path) -> None:
    """An empty library in its place would replace the snapshot at the server's start."""
    command = CommandContext("bundled", "cpu", str(tmp_path / "voices.db"), snapshots=tmp_path / "kept")
    with command._saved_storage() as storage:
        storage.voices.add(voice("Ada"))
    (tmp_path / "voices.db").unlink()
    with command.library() as library:
        assert "Ada" in [record.name for record in library.list()]


def test_library_that_cannot_be_opened_replaces_no_snapshot(tmp_path: Path) -> None:
    library, kept = tmp_path / "voices.db", tmp_path / "kept"
    command = CommandContext("bundled", "cpu", str(library), snapshots=kept)
    with command._saved_storage() as storage:
        storage.voices.add(voice("Ada"))
    (before,) = kept.iterdir()
    library.unlink()
    with closing(sqlite3.connect(library)) as other:
        other.execute("CREATE TABLE other (id)")  # intact, but no library
    with pytest.raises(DatabaseUnavailable, match="another program"), command._saved_storage():
        pass
    assert list(kept.iterdir()) == [before]


def test_server_whose_snapshots_are_of_another_library_is_not_started(tmp_path: Path) -> None:
    kept, library = tmp_path / "kept", tmp_path / "voices.db"
    with CommandContext("bundled", "cpu", str(library), snapshots=kept)._saved_storage() as storage:
        storage.voices.secret("signing")
    library.unlink()
    with CommandContext("bundled", "cpu", str(library)).library() as voices:
        voices.add(voice("Ben"))
    command = CommandContext("bundled", "cpu", str(library), snapshots=kept)
    with pytest.raises(DatabaseUnavailable, match="of another library"), command._saved_storage():
        pass


def test_snapshots_of_a_database_server_are_rejected(tmp_path: Path) -> None:
    command = CommandContext("bundled", "cpu", database="postgresql://localhost/voices", snapshots=tmp_path)
    with pytest.raises(InvalidOption, match="a library in a file"), command._saved_storage():
        pass


def test_server_whose_sounds_cannot_be_stored_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "sounds").touch()
    command = CommandContext("no model", "cpu", str(tmp_path / "voices.db"), sounds=str(tmp_path / "sounds"))
    with pytest.raises(DatabaseUnavailable, match="store of sounds"), command.services():
        pass


def test_new_library_is_announced_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "voices.db"
    for announced in (f"New library: {file}\n", ""):
        with CommandContext("bundled", "cpu", str(file)).storage():
            pass
        assert capsys.readouterr() == ("", announced)


def test_server_that_waits_for_a_job_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left: list[bool] = []
    monkeypatch.setattr(context, "exit_on_next_ctrl_c", lambda: left.append(True))
    monkeypatch.setattr(CommandContext, "models", lambda *_: nullcontext(ModelManager(FakeEngine())))  # type: ignore[arg-type]
    may_end, pool = Event(), BoundedPool(1, 1, 1, RuntimeError)

    def stop_server() -> str:
        with CommandContext("bundled", "cpu", str(tmp_path / "voices.db")).services():
            pass
        return capsys.readouterr().err

    async def stop_with_a_job() -> str:
        begun = Event()
        job = asyncio.create_task(pool.run("ann", lambda: begun.set() or may_end.wait(TIMEOUT)))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        try:
            return stop_server()
        finally:
            may_end.set()
            await job

    assert "ends first" in run(stop_with_a_job)
    assert "ends first" not in stop_server()
    assert left == [True]
