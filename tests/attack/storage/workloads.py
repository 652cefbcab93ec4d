"""Workloads for the attacks on libraries. Each step is one atomic call."""

from __future__ import annotations

import hashlib
import itertools
import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from unittest import mock

from alembic import command
from sqlalchemy import create_engine, text

from storage import Storage, migrations
from storage.voices.library import TRASH_RETENTION
from tests.attack.storage.marked import Marker
from tests.attack.storage.power import contents
from tests.storage.scratch import scratch
from tests.storage.speaking import Clock

NAME = "voices.db"
BEGIN = datetime(2026, 11, 22, 9, tzinfo=UTC)

_UNCOMPARED = {"erasures", migrations.VERSION_TABLE, "zeros", "server_secrets"}
_UNCOMPARED_COLUMNS = {"created", "updated", "lead", "mark"}
_SEED = 4711

State = dict[str, list[str]]
"""All rows by table, without columns that differ between equal runs."""

Step = Callable[[Storage], object]


@dataclass(frozen=True)
class Workload:
    """before: the initial files. steps: run after the library is opened; a purge does not change the state."""

    name: str
    before: dict[str, bytes]
    steps: tuple[Step, ...]


def open_storage(folder: Path, *, later: bool = False) -> Storage:
    """Open the library with a constant clock. later: at a time after the trash has expired."""
    return Storage.open(folder / NAME, busy_timeout=0.2, clock=Clock(BEGIN + 2 * TRASH_RETENTION if later else BEGIN))


@contextmanager
def deterministic_ids(first: int = 1_000_000) -> Iterator[None]:
    """Give new rows deterministic ids, from `first` on."""
    numbers = itertools.count(first)
    with mock.patch("uuid.uuid4", side_effect=lambda: uuid.UUID(int=(next(numbers) << 64) | 0xA7)):
        yield


def state_of(folder: Path) -> State:
    """The library's content, read directly from the database."""
    state: State = {}
    with closing(sqlite3.connect(folder / NAME)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in sorted(set(tables) - _UNCOMPARED):
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            chosen = ", ".join(sorted(set(columns) - _UNCOMPARED_COLUMNS))
            rows = connection.execute(f"SELECT {chosen} FROM {table}")
            state[table] = sorted(repr([_short(value) for value in row]) for row in rows)
    return state


def _short(value: object) -> object:
    return hashlib.sha1(value).digest() if isinstance(value, bytes) else value


def damage_in(folder: Path) -> list[str]:
    """The defects that SQLite finds in the file."""
    try:
        with closing(sqlite3.connect(folder / NAME)) as connection:
            found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
            return found + [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]


@cache
def workloads() -> tuple[Workload, ...]:
    """All workloads, the same in every process."""
    return (_saves(), _imports(), _deletes(), _undo(), _forget(), *map(_migration, ("0001", "0002", "0003", "0005")))


def _saves() -> Workload:
    mark = Marker(random.Random(_SEED))
    voices = [mark.voice() for _ in range(3)]
    recoded, take, script = mark.recoded(voices[0]), mark.spoken(), [mark.card() for _ in range(5)]
    spoken = mark.spoken(script[0].text)
    return Workload(
        "saves",
        {},
        (
            *(lambda storage, voice=voice: storage.voices.add(voice) for voice in voices),
            lambda storage: storage.voices.ready(storage.voices.find(voices[0].name).id, "codec-b", lambda _: recoded),
            lambda storage: storage.history.add(take),
            lambda storage: storage.scripts.create("Play", script),
            lambda storage: storage.scripts.attach(_cards(storage)[0], spoken),
            lambda storage: storage.scripts.edit(_cards(storage)[1], "Other words."),
        ),
    )


def _imports() -> Workload:
    mark = Marker(random.Random(_SEED + 1))
    files = [mark.voice().to_bytes() for _ in range(3)]
    return Workload(
        "imports",
        filled_library(),
        (
            *(lambda storage, data=data: storage.voices.import_voice(data, name=f"New {len(data)}") for data in files),
            lambda storage: storage.voices.duplicate(_voices(storage)[0]),
        ),
    )


def _deletes() -> Workload:
    return Workload(
        "deletes",
        filled_library(),
        (
            lambda storage: storage.voices.delete(_voices(storage)[0]),
            lambda storage: storage.history.delete(storage.history.page().records[0].id),
            lambda storage: storage.scripts.merge(_cards(storage)[0]),
            lambda storage: storage.scripts.delete_card(_cards(storage)[1]),
            lambda storage: storage.scripts.discard(storage.scripts.list()[0].id),
            lambda storage: storage.history.clear(),
        ),
    )


def _undo() -> Workload:
    return Workload(
        "undo",
        filled_library(),
        (
            lambda storage: storage.voices.trash(_voices(storage)[0]),
            lambda storage: storage.voices.restore(storage.voices.trashed()[0].id),
            lambda storage: storage.voices.rename(_voices(storage)[1], "Renamed"),
            lambda storage: storage.voices.trash(_voices(storage)[1]),
            lambda storage: storage.voices.purge_expired(),
            lambda storage: storage.voices.empty_trash(),
        ),
    )


def _forget() -> Workload:
    return Workload(
        "forget",
        filled_library(),
        (
            lambda storage: storage.history.change_settings(retention_days=3, owner="ann"),
            lambda storage: storage.delete_owner("ann"),
            lambda storage: storage.delete_owner("local"),
        ),
    )


def _migration(version: str) -> Workload:
    return Workload(
        f"migration from {version}", library_of_version(version), (lambda storage: storage.voices.purge_expired(),)
    )


def _voices(storage: Storage) -> list[str]:
    return [record.id for record in storage.voices.list()]


def _cards(storage: Storage) -> list[str]:
    return [card.id for card in storage.scripts.cards(storage.scripts.list()[0].id)]


@cache
def filled_library() -> dict[str, bytes]:
    """A library of two owners, each with voices, takes and a script."""
    mark = Marker(random.Random(_SEED + 2))
    with scratch() as folder:
        with open_storage(folder) as storage, deterministic_ids(first=1):
            for owner in ("local", "ann"):
                for _ in range(3):
                    storage.voices.add(mark.voice(), owner=owner)
                    storage.history.add(mark.spoken(), owner=owner)
                cards = [mark.card() for _ in range(4)]
                cards[1] = cards[0]
                script = storage.scripts.create("Play", cards, owner=owner)
                for card in storage.scripts.cards(script.id, owner=owner)[:2]:
                    storage.scripts.attach(card.id, mark.spoken(card.text), owner=owner)
        return contents(folder)


@cache
def library_of_version(version: str) -> dict[str, bytes]:
    """A library as written by an earlier version."""
    mark = Marker(random.Random(_SEED + 3))
    with scratch() as folder:
        engine = create_engine(f"sqlite:///{folder / NAME}")
        with engine.begin() as connection:
            command.upgrade(migrations.config(connection), version)
            for number in range(6):
                values: dict[str, str | bytes] = {
                    "id": f"{number:032x}",
                    "name": mark.text(60),
                    "now": "2026-11-20 08:00:00.000000",
                }
                values |= {"clip": mark.sound(30_000), "transcript": mark.text(900), "codes": mark.sound(2_000)}
                for statement in _VOICE + (_GENERATION if version >= "0003" else ()):
                    connection.execute(text(statement), values)
        engine.dispose()
        return contents(folder)


_VOICE = (
    """INSERT INTO voices (id, owner, name, name_key, search_key, language, description, codec_fingerprint, created,
    updated) VALUES (:id, 'local', :name, :name, :name, 'en', '', 'codec-a', :now, :now)""",
    """INSERT INTO voice_references (voice_id, position, transcript, duration, sample_rate, clip)
    VALUES (:id, 0, :transcript, 0.1, 22050, :clip)""",
    "INSERT INTO reference_codes VALUES (:id, 0, 'codec-a', :codes)",
)
_GENERATION = (
    """INSERT INTO generations (id, owner, created, listed, starred, text, search_key, voice_name, seed, settings,
    model, duration, stop_reason, size)
    VALUES (:id, 'local', :now, 1, 0, :transcript, :transcript, :name, 1, '{}', '', 0.1, 'end', 1)""",
    "INSERT INTO generation_audio (generation_id, audio) VALUES (:id, :clip)",
)
