"""What commands open, and options that do not go together."""

from pathlib import Path

import pytest

from cli import context
from cli.context import CommandContext, parse_replicas, require
from engine.errors import InvalidOption
from storage import Storage
from tests.storage.making import voice


@pytest.mark.parametrize(("text", "replicas"), [("1", (1, 1)), ("2-8", (2, 8)), ("3-3", (3, 3))])
def test_numbers_of_replicas(text: str, replicas: tuple[int, int]) -> None:
    assert parse_replicas(text) == replicas


@pytest.mark.parametrize("text", ["", "0", "8-2", "1-", "-3", "two", "1-2-3"])
def test_what_is_no_number_of_replicas_is_told(text: str) -> None:
    with pytest.raises(InvalidOption, match="no number of replicas"):
        parse_replicas(text)


def test_a_cluster_without_ray_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "has_package", lambda _name, _least: False)
    with (
        pytest.raises(InvalidOption, match="needs the package “ray”"),
        CommandContext("bundled", "cpu", cluster="auto").engine(),
    ):
        pass


def test_a_package_that_is_too_old_is_told() -> None:
    require("typer")
    with pytest.raises(InvalidOption, match="needs the package “typer”"):
        require("typer", 99)


def test_a_space_restores_its_library_and_saves_it_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "ada/reprise")
    monkeypatch.setattr(context, "SPACE_DATA", tmp_path / "data")
    (tmp_path / "data").mkdir()
    for disk in ("first", "second"):  # each start has a new one
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / disk))
        command = CommandContext("bundled", "cpu")
        with command._saved(), Storage.open(command._place()) as storage:
            if disk == "first":
                storage.voices.add(voice("Ada"))
            assert [record.name for record in storage.voices.list()] == ["Ada"]


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_snapshots_of_a_file_that_is_named_by_path_or_url(tmp_path: Path, prefix: str) -> None:
    command = CommandContext("bundled", "cpu", f"{prefix}{tmp_path}/voices.db", snapshots=tmp_path / "kept")
    with command._saved(), Storage.open(command._place()) as storage:
        storage.voices.add(voice("Ada"))
    (tmp_path / "voices.db").unlink()
    with command._saved(), Storage.open(command._place()) as storage:
        assert [record.name for record in storage.voices.list()] == ["Ada"]


def test_snapshots_of_a_server_are_refused(tmp_path: Path) -> None:
    command = CommandContext("bundled", "cpu", database="postgresql://localhost/voices", snapshots=tmp_path)
    with pytest.raises(InvalidOption, match="a library in a file"), command._saved():
        pass
