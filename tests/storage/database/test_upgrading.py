"""Libraries of all earlier versions are upgraded to head and keep their voices."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, Table, create_engine, inspect, text
from typer.testing import CliRunner

from app import main
from engine.codes import codes_to_bytes
from storage import migrations
from storage.errors import DatabaseUnavailable
from storage.models import LEAD_BYTES
from storage.pronunciations import Pronunciation
from storage.sqlite.backup import unmigrated
from storage.storage import Storage
from storage.validation import settings_to_json
from storage.voices.sample_voices import install_samples
from tests.storage.making import clip, codes, count_rows
from tests.storage.speaking import card, spoken

MIGRATES = True  # with Alembic

VOICE = "a" * 32
VERSIONS = sorted(script.revision for script in ScriptDirectory.from_config(migrations.config()).walk_revisions())
BEFORE = VERSIONS[:-1]
# An upgrade from the first version runs all migrations; from "0006" on, a reference has a lead.
CASES = [
    *(("empty_sqlite", version) for version in (BEFORE[0], "0005", "0006")),
    *(("empty_postgresql", version) for version in (BEFORE[0], "0006")),
]


def write_voice(url: str, version: str) -> None:
    """Write a library of `version` that contains one voice with one reference and its codes."""
    engine = create_engine(url)
    with engine.begin() as connection:
        command.upgrade(migrations.config(connection), version)
        connection.execute(
            text(
                "INSERT INTO voices (id, owner, name, name_key, search_key, language, description,"
                " codec_fingerprint, created, updated)"
                " VALUES (:id, 'local', 'Ada', 'ada', 'ada', 'en', '', 'codec-a', :now, :now)"
            ),
            {"id": VOICE, "now": "2026-11-20 08:00:00.000000"},
        )
        columns, values = (
            "voice_id, position, transcript, duration, sample_rate, clip",
            ":id, 0, 'Hello.', 0.1, 22050, :clip",
        )
        if version >= "0006":
            columns, values = f"{columns}, lead", f"{values}, :lead"
        connection.execute(
            text(f"INSERT INTO voice_references ({columns}) VALUES ({values})"),
            {"id": VOICE, "clip": clip(), "lead": bytes(LEAD_BYTES)},
        )
        connection.execute(
            text("INSERT INTO reference_codes VALUES (:id, 0, 'codec-a', :codes)"),
            {"id": VOICE, "codes": codes_to_bytes(codes())},
        )
    engine.dispose()


def test_tables_of_another_program_are_named_and_kept(empty_postgresql: str) -> None:
    """In PostgreSQL only those of the same name are in the way. Of SQLite, see `test_database.py`."""
    engine = create_engine(empty_postgresql)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE scripts (title TEXT)"))
    with pytest.raises(DatabaseUnavailable, match="tables of another program") as refused:
        Storage.open(empty_postgresql)
    assert refused.value.detail is not None
    assert '"scripts"' in refused.value.detail
    with engine.begin() as connection:
        assert inspect(connection).get_table_names() == ["scripts"]
        connection.execute(text("ALTER TABLE scripts RENAME TO plays"))
    engine.dispose()
    with Storage.open(empty_postgresql) as storage:
        assert storage.voices.list() == []


def test_upgrade_removes_pronunciations_stored_twice(empty_url: str) -> None:
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        command.upgrade(migrations.config(connection), "0015")
        for row, owner, language in (("a", "ann", ""), ("b", "ann", ""), ("c", "ann", "de"), ("d", "ben", "")):
            connection.execute(
                text("INSERT INTO pronunciations VALUES (:id, :owner, 'SQL', :spoken, :no, :language)"),
                {"id": row * 32, "owner": owner, "spoken": f"sequel {row}", "no": False, "language": language},
            )
    engine.dispose()
    with Storage.open(empty_url) as storage:
        words = storage.pronunciations
        assert [entry.spoken for entry in words.list(owner="ann")] == ["sequel b", "sequel c"]
        assert [entry.spoken for entry in words.list(owner="ben")] == ["sequel d"]
        words.put([Pronunciation("SQL", "S Q L")], owner="ann")
        assert [entry.spoken for entry in words.list(owner="ann")] == ["S Q L", "sequel c"]


def test_upgrade_stores_the_ids_of_aliased_voices(empty_url: str) -> None:
    write_voice(empty_url, "0018")
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO voices (id, owner, name, name_key, search_key, language, description,"
                " codec_fingerprint, created, updated, set_aside)"
                " VALUES (:id, 'local', 'Ben', 'ben', 'ben', 'en', '', 'codec-a', :now, :now, :now)"
            ),
            {"id": "b" * 32, "now": "2026-11-20 08:00:00.000000"},
        )
        for row, owner, aliases in (
            ("a", "local", {"alloy": "ADA ", "echo": "Clara", "nova": "Ben"}),
            ("b", "user:ann", {"alloy": "Ada"}),
            ("c", "local", {}),
        ):
            connection.execute(
                text(
                    "INSERT INTO api_keys (id, digest, hint, name, owner, created, used, period, voices)"
                    " VALUES (:id, :id, 'rp-', :id, :owner, :now, 0, 0, :voices)"
                ),
                {"id": row, "owner": owner, "now": "2026-11-20 08:00:00.000000", "voices": settings_to_json(aliases)},
            )
    engine.dispose()
    with Storage.open(empty_url) as storage:
        assert [key.voices for key in storage.keys.list()] == [
            {"alloy": VOICE, "echo": "Clara", "nova": "Ben"},  # Ben is in the trash, where a voice has no name
            {"alloy": "Ada"},
            {},
        ]


def test_upgrade_keeps_cards_and_what_belongs_to_them(empty_url: str) -> None:
    engine = create_engine(empty_url)
    script, first, second, take = (letter * 32 for letter in "cdef")
    when = datetime(2026, 11, 20, tzinfo=UTC)
    card_of = {"script_id": script, "pause": 0.5, "locked": False, "seed": 7, "settings": "{}"}
    take_of = {"owner": "local", "created": when, "listed": False, "starred": False, "text": "One.", "search_key": ""}
    take_of |= {"voice_name": "Ada", "seed": 7, "settings": "{}", "model": "", "duration": 1.5, "stop_reason": "end"}
    rows: list[tuple[str, dict[str, object]]] = [
        ("scripts", {"id": script, "owner": "local", "name": "Play", "created": when, "updated": when}),
        ("script_cards", {"id": first, "position": 0, "text": "One.", "status": "idle", **card_of}),
        (
            "script_cards",
            {"id": second, "position": 1, "text": "Two.", "status": "queued", "speed": 2.0, **card_of},
        ),
        ("generations", {"id": take, "size": 4, **take_of}),
        ("card_takes", {"card_id": first, "generation_id": take, "chosen": True}),
    ]
    with engine.begin() as connection:
        command.upgrade(migrations.config(connection), "0020")
        for name, values in rows:
            connection.execute(Table(name, MetaData(), autoload_with=connection).insert().values(**values))
    engine.dispose()
    with Storage.open(empty_url) as storage:
        cards = storage.scripts.cards(script)
        assert [(each.text, each.take_id, each.speed) for each in cards] == [("One.", take, 1.0), ("Two.", None, 2.0)]
        storage.scripts.attach(second, spoken("Two."))
        storage.scripts.discard(script)
    assert (count_rows(empty_url, "script_cards"), count_rows(empty_url, "card_takes")) == (0, 0)


def test_copied_library_stays_at_its_version(empty_sqlite: str, tmp_path: Path) -> None:
    write_voice(empty_sqlite, BEFORE[-1])
    source, target = tmp_path / "new.sqlite", tmp_path / "target.sqlite"
    before = source.read_bytes()
    done = CliRunner().invoke(main, ["library", "copy", empty_sqlite, str(target)])
    assert done.exit_code == 0, done.output
    assert source.read_bytes() == before
    with Storage.open(target) as storage:
        assert storage.voices.find("Ada").id == VOICE


def test_library_in_use_is_not_opened_as_one_of_no_version(
    empty_sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_voice(empty_sqlite, BEFORE[-1])
    source = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(source)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
        with pytest.raises(DatabaseUnavailable, match="another program") as refused, unmigrated(source):
            pass
    assert str(source) in refused.value.detail


@pytest.mark.parametrize(("database", "version"), CASES)
def test_upgraded_library_keeps_its_voices(request: pytest.FixtureRequest, database: str, version: str) -> None:
    url = str(request.getfixturevalue(database))
    write_voice(url, version)
    with Storage.open(url) as storage:
        install_samples(storage.voices)
        assert storage.voices.find("Ada").id == VOICE
        whole = storage.voices.load(VOICE)
        assert (whole.name, len(whole.references)) == ("Ada", 1)
        assert storage.storage_use().voices > len(clip())
        assert storage.history.page().total == 0
        made = storage.history.add(spoken(voice_id=VOICE))
        assert made is not None
        script = storage.scripts.create("Play", [card("Hello.")])
        (first,) = storage.scripts.cards(script.id)
        assert storage.scripts.set_voice(first.id, VOICE).voice_id == VOICE
    with Storage.open(url) as storage:
        assert storage.voices.load(VOICE) == whole
        assert storage.history.get(made.id) == made
