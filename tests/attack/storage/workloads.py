"""Workloads of attacked libraries: steps that are each one atomic call."""

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

from storage import Studio, migrations
from storage.library import UNDO_TIME
from tests.attack.storage.marked import Marker
from tests.attack.storage.power import contents
from tests.storage.scratch import scratch
from tests.storage.speaking import Clock

NAME = "voices.db"
BEGIN = datetime(2026, 11, 22, 9, tzinfo=UTC)

_UNCOMPARED = {"erasures", migrations.VERSION_TABLE, "zeros", "server_secrets"}
_UNCOMPARED_COLUMNS = {"created", "updated", "lead"}
_SEED = 4711

State = dict[str, list[str]]
"""All rows by table, as far as they are the same whenever the same is done."""

Step = Callable[[Studio], object]


@dataclass(frozen=True)
class Workload:
    """before: initial files. steps: after opening the library; the sweep does not change the state."""

    name: str
    before: dict[str, bytes]
    steps: tuple[Step, ...]


def open_studio(folder: Path, *, later: bool = False) -> Studio:
    """With a clock that stands still; later: after everything set aside is gone for good."""
    return Studio.open(folder / NAME, busy_timeout=0.2, clock=Clock(BEGIN + 2 * UNDO_TIME if later else BEGIN))


@contextmanager
def same_ids(first: int = 1_000_000) -> Iterator[None]:
    """Give new rows deterministic ids, from `first` on."""
    numbers = itertools.count(first)
    with mock.patch("uuid.uuid4", side_effect=lambda: uuid.UUID(int=(next(numbers) << 64) | 0xA7)):
        yield


def state_of(folder: Path) -> State:
    """The library's content, read without its code."""
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
    """All of them, the same in every process."""
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
            *(lambda studio, voice=voice: studio.voices.add(voice) for voice in voices),
            lambda studio: studio.voices.ready(studio.voices.find(voices[0].name).id, "codec-b", lambda _: recoded),
            lambda studio: studio.history.add(take),
            lambda studio: studio.scripts.create("Play", script),
            lambda studio: studio.scripts.attach(_cards(studio)[0], spoken),
            lambda studio: studio.scripts.edit(_cards(studio)[1], "Other words."),
        ),
    )


def _imports() -> Workload:
    mark = Marker(random.Random(_SEED + 1))
    files = [mark.voice().to_bytes() for _ in range(3)]
    return Workload(
        "imports",
        filled(),
        (
            *(lambda studio, data=data: studio.voices.import_voice(data, name=f"New {len(data)}") for data in files),
            lambda studio: studio.voices.duplicate(_voices(studio)[0]),
        ),
    )


def _deletes() -> Workload:
    return Workload(
        "deletes",
        filled(),
        (
            lambda studio: studio.voices.delete(_voices(studio)[0]),
            lambda studio: studio.history.delete(studio.history.page().records[0].id),
            lambda studio: studio.scripts.merge(_cards(studio)[0]),
            lambda studio: studio.scripts.delete_card(_cards(studio)[1]),
            lambda studio: studio.scripts.discard(studio.scripts.list()[0].id),
            lambda studio: studio.history.clear(),
        ),
    )


def _undo() -> Workload:
    return Workload(
        "undo",
        filled(),
        (
            lambda studio: studio.voices.set_aside(_voices(studio)[0]),
            lambda studio: studio.voices.put_back(studio.voices.aside()[0].id),
            lambda studio: studio.voices.rename(_voices(studio)[1], "Renamed"),
            lambda studio: studio.voices.set_aside(_voices(studio)[1]),
            lambda studio: studio.voices.sweep(),
            lambda studio: studio.voices.delete_aside(),
        ),
    )


def _forget() -> Workload:
    return Workload(
        "forget",
        filled(),
        (
            lambda studio: studio.history.change_settings(retention_days=3, owner="ann"),
            lambda studio: studio.forget("ann"),
            lambda studio: studio.forget("local"),
        ),
    )


def _migration(version: str) -> Workload:
    return Workload(f"migration from {version}", earlier(version), (lambda studio: studio.voices.sweep(),))


def _voices(studio: Studio) -> list[str]:
    return [record.id for record in studio.voices.list()]


def _cards(studio: Studio) -> list[str]:
    return [card.id for card in studio.scripts.cards(studio.scripts.list()[0].id)]


@cache
def filled() -> dict[str, bytes]:
    """A library of two owners, each with voices, takes and a script."""
    mark = Marker(random.Random(_SEED + 2))
    with scratch() as folder:
        with open_studio(folder) as studio, same_ids(first=1):
            for owner in ("local", "ann"):
                for _ in range(3):
                    studio.voices.add(mark.voice(), owner=owner)
                    studio.history.add(mark.spoken(), owner=owner)
                cards = [mark.card() for _ in range(4)]
                cards[1] = cards[0]
                script = studio.scripts.create("Play", cards, owner=owner)
                for card in studio.scripts.cards(script.id, owner=owner)[:2]:
                    studio.scripts.attach(card.id, mark.spoken(card.text), owner=owner)
        return contents(folder)


@cache
def earlier(version: str) -> dict[str, bytes]:
    """A library as written by an earlier version."""
    mark = Marker(random.Random(_SEED + 3))
    with scratch() as folder:
        engine = create_engine(f"sqlite:///{folder / NAME}")
        with engine.begin() as connection:
            command.upgrade(migrations.config(connection), version)
            for number in range(6):
                values = {"id": f"{number:032x}", "name": mark.text(60), "now": "2026-11-20 08:00:00.000000"}
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
