"""Migrations: from an empty database to head they create exactly the tables of the models."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from storage import Storage, migrations
from storage.database import MIGRATION_LOCK
from storage.migrations.__main__ import main
from storage.models import Base

MIGRATES = True  # with Alembic


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    made = create_engine(empty_url)
    yield made
    made.dispose()


def by_name(parts: Iterable[Any]) -> list[Any]:
    return sorted(parts, key=lambda part: str(part["name"]))


def schema(connection: Connection) -> dict[str, object]:
    """Return the schema of Reprise's tables in an order that does not depend on how they were created."""
    inspector = inspect(connection)
    return {
        table: {
            "columns": by_name({**column, "type": str(column["type"])} for column in inspector.get_columns(table)),
            "key": inspector.get_pk_constraint(table),
            "foreign": inspector.get_foreign_keys(table),
            "unique": inspector.get_unique_constraints(table),
            "checks": by_name(inspector.get_check_constraints(table)),
            "indexes": [
                {**index, "dialect_options": {name: str(what) for name, what in index["dialect_options"].items()}}
                for index in inspector.get_indexes(table)
            ],
        }
        for table in inspector.get_table_names()
        if table != migrations.VERSION_TABLE
    }


def test_migrations_from_empty_to_head_match_the_models(engine: Engine) -> None:
    with engine.begin() as connection:
        migrations.upgrade(connection)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrations.VERSION_TABLE})
        assert compare_metadata(context, Base.metadata) == []
        migrated = schema(connection)
        assert migrated.keys() == set(Base.metadata.tables)
        Base.metadata.drop_all(connection)
        Base.metadata.create_all(connection)
        assert schema(connection) == migrated


def test_upgrade_at_head_is_a_no_op(engine: Engine) -> None:
    for _ in range(2):
        with engine.begin() as connection:
            migrations.upgrade(connection)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrations.VERSION_TABLE})
        assert context.get_current_heads() == tuple(ScriptDirectory.from_config(migrations.config()).get_heads())


def test_opening_waits_for_a_running_migration(empty_postgresql: str) -> None:
    """SQLite serializes all writers; in PostgreSQL a lock serializes migrations."""
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    engine = create_engine(empty_postgresql)
    with ThreadPoolExecutor(1) as pool, engine.connect() as observer:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            migrations.upgrade(connection)
            opening = pool.submit(Storage.open, empty_postgresql)
            while not observer.scalar(waiting):
                assert not opening.done()
                observer.rollback()  # pg_stat_activity does not change within a transaction
        with opening.result() as storage:
            assert storage.voices.list() == []
    engine.dispose()


def test_migrations_form_one_numbered_line() -> None:
    scripts = list(ScriptDirectory.from_config(migrations.config()).walk_revisions())
    numbers = [script.revision for script in reversed(scripts)]
    assert numbers == [f"{number:04d}" for number in range(1, len(scripts) + 1)]


def test_migration_command_writes_the_next_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on a copy of the migrations."""
    copy = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrations, "__file__", str(copy / "__init__.py"))
    monkeypatch.setattr(sys.modules[main.__module__], "__file__", str(copy / "__main__.py"))
    before = sorted(copy.glob("versions/v*.py"))
    main("nothing new")
    (path,) = set(copy.glob("versions/v*.py")) - set(before)
    number = len(before) + 1
    assert path.name == f"v{number:04d}_nothing_new.py"
    written = path.read_text()
    assert f'"""nothing new. Comes after {number - 1:04d}."""' in written
    assert "op." not in written
    compile(written, str(path), "exec")
