"""Copying a library between databases."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import main
from storage import Storage, copying
from storage.api_keys import NewKey
from storage.errors import DatabaseUnavailable, LibraryError
from storage.models import Base
from storage.voices.sample_voices import install_samples
from tests.storage.making import count_rows, recoded, voice
from tests.storage.speaking import card, spoken


def fill(url: str, sounds: Path | None = None) -> None:
    """Fill a library so that every table has a row."""
    with Storage.open(url, audio_store=sounds) as storage:
        install_samples(storage.voices)
        ada = storage.voices.add(voice("Ada 🎙 Ä"))
        storage.voices.ready(ada.id, "codec-b", lambda original: recoded(original, "codec-b"))
        storage.voices.trash(storage.voices.add(voice("Bea"), owner="her").id, owner="her")
        storage.history.add(spoken(voice_id=ada.id))
        storage.history.change_settings(retention_days=3)
        storage.consents.add("Ada", "en", b"I agree.")
        script = storage.scripts.create("Play", [card("Hello."), card("There.", speaker="Ben")])
        storage.scripts.attach(storage.scripts.cards(script.id)[0].id, spoken())
        storage.keys.create(NewKey("program", "local"))
        storage.voices.secret("signing")


def content(url: str, sounds: Path | None = None) -> dict[str, object]:
    with Storage.open(url, audio_store=sounds) as storage:
        (play,) = storage.scripts.list()
        return {
            "voices": [storage.voices.load(record.id) for record in storage.voices.list()],
            "records": storage.voices.list(),
            "trash": storage.voices.trashed(owner="her"),
            "history": storage.history.page(),
            "sound": [storage.history.audio(record.id) for record in storage.history.page().records],
            "settings": storage.history.settings(),
            "consents": [storage.consents.recording(record.id) for record in storage.consents.list()],
            "cards": storage.scripts.cards(play.id),
            "keys": storage.keys.list(),
            "secret": storage.voices.secret("signing"),
        }


def test_copy_command_to_postgresql_and_back(sqlite: str, postgresql: str, tmp_path: Path) -> None:
    fill(sqlite)
    sounds = tmp_path / "sounds"
    there = CliRunner().invoke(main, ["library", "copy", sqlite, postgresql, "--to-sounds", str(sounds)])
    assert there.exit_code == 0, there.output
    assert "every row is the same" in there.output
    assert content(postgresql, sounds) == content(sqlite)
    assert count_rows(postgresql, "stored_objects") == len([path for path in sounds.rglob("*") if path.is_file()])
    for store in ("--from-sounds", "--sounds"):
        back, given = str(tmp_path / f"back{store}.sqlite"), (store, str(sounds))
        before, after = (given, ()) if store == "--sounds" else ((), given)
        home = CliRunner().invoke(main, [*before, "library", "copy", postgresql, back, *after])
        assert home.exit_code == 0, home.output
        assert content(back) == content(sqlite)


def test_missing_library_is_not_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "missing.sqlite", tmp_path / "new.sqlite"
    done = CliRunner().invoke(main, ["library", "copy", str(source), str(target)])
    assert done.exit_code == 1
    assert f"the file {source} does not exist" in done.output
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_not_copied(tmp_path: Path) -> None:
    (tmp_path / "clip.wav").write_bytes(b"RIFF....WAVEfmt ")
    for source, sentence in ((tmp_path / "clip.wav", "another kind"), (tmp_path, "has to be a file")):
        done = CliRunner().invoke(main, ["library", "copy", str(source), str(tmp_path / "new.sqlite")])
        assert done.exit_code == 1
        assert sentence in done.output


def test_library_with_content_is_not_overwritten(sqlite: str) -> None:
    fill(sqlite)
    done = CliRunner().invoke(main, ["library", "copy", sqlite, sqlite])
    assert done.exit_code == 1
    assert "is not empty" in done.output


def test_failed_or_differing_copy_leaves_nothing(
    sqlite: str, postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite)
    sounds = tmp_path / "sounds"

    def files() -> list[Path]:
        return [path for path in sounds.rglob("*") if path.is_file()]

    with Storage.open(sqlite) as source, Storage.open(postgresql, audio_store=sounds) as target:

        def stop(table: str, _done: int, _rows: int) -> None:
            if table == "generation_audio":
                raise DatabaseUnavailable("database.no_answer")

        with pytest.raises(DatabaseUnavailable):
            source.copy_to(target, stop)
        write = copying._write

        def damaged(session: object, table: object, rows: list[dict[str, object]], store: object) -> None:
            write(session, table, [{**row, **({"text": "Other."} if "text" in row else {})} for row in rows], store)  # type: ignore[arg-type]

        monkeypatch.setattr(copying, "_write", damaged)
        with pytest.raises(LibraryError, match="differs from the library in generations, script_cards"):
            source.copy_to(target)
        assert files() == []
    assert [count_rows(postgresql, table) for table in ("voices", "generations", "stored_objects")] == [0, 0, 0]


def test_all_tables_with_audio_objects_are_copied() -> None:
    """A table with a column `object` must be copied with its audio objects."""
    tables = Base.metadata.tables.values()
    assert {table.name for table in tables if "object" in table.columns} == copying.SOUNDS.keys()
