"""Deletions remove data from the database's files, from memory and from the engine, or change nothing."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from sqlalchemy import Engine as SqlEngine
from sqlalchemy import event

from engine.voice import EncodedVoice, Voice
from storage import Storage
from storage.errors import DatabaseUnavailable, OwnerDeleted, TakeNotFound, VoiceChanged
from storage.object_store import ObjectStore
from storage.repositories.takes import TakeRecord
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from studio.voices.voice_maker import make_voice
from tests.attack.storage.marked import Marker, tokens_in_files
from tests.paths import CLIP
from tests.storage.making import recoded
from tests.storage.making import voice as unmarked_voice
from tests.support.fake_engine import FakeEngine

CODEC = "codec-b"
OWNER = "ann"


class ForgettingEngine(FakeEngine):
    """Records the voices passed to `forget`."""

    def __init__(self) -> None:
        super().__init__()
        self.codec_fingerprint = CODEC
        self.dropped: list[Voice] = []

    def forget(self, voice: Voice) -> None:
        self.dropped.append(voice)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "library" / "voices.db"


@pytest.fixture
def storage(path: Path) -> Iterator[Storage]:
    with Storage.open(path, busy_timeout=0.1) as opened:
        yield opened


@pytest.fixture
def engine() -> ForgettingEngine:
    return ForgettingEngine()


@pytest.fixture
def app(engine: ForgettingEngine, storage: Storage) -> AppContext:
    return AppContext.create(ModelManager(cast(Any, engine)), storage)


@pytest.fixture
def mark() -> Marker:
    return Marker(random.Random(5))


def add_voice(app: AppContext, mark: Marker) -> tuple[str, Voice]:
    """Add a marked voice of another codec and reencode it; returns its id and the reencoded voice."""
    made = mark.voice()
    voice_id = app.storage.voices.add(made, owner=OWNER).id
    spoken = app.storage.voices.ready(voice_id, CODEC, lambda voice: recoded(voice, CODEC), owner=OWNER)
    return voice_id, spoken


def keep_take(app: AppContext, mark: Marker) -> TakeRecord:
    """Save a take in memory, with the owner's history switched off."""
    app.storage.history.change_settings(history=False, owner=OWNER)
    kept = app.takes.save(mark.spoken(), owner=OWNER, deletion_token=app.takes.deletion_token(owner=OWNER))
    assert kept is not None
    return kept


def cached(voice: Voice) -> list[tuple[str, bytes]]:
    """Return the keys under which the engine caches the voice."""
    return [(reference.transcript, reference.codes.tobytes()) for reference in voice.references]


@contextmanager
def failing_deletions() -> Iterator[None]:
    def fail(_: object, __: object, sql: str, *___: object) -> None:
        if sql.startswith(("DELETE FROM voices", "UPDATE voices")):
            raise sqlite3.OperationalError("disk I/O error")

    event.listen(SqlEngine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        event.remove(SqlEngine, "before_cursor_execute", fail)


def test_voice_encoded_during_a_deletion_is_not_saved(
    app: AppContext, engine: ForgettingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_voice = engine.encode_voice

    def encode(*values: Any, **fields: Any) -> EncodedVoice:
        app.delete_owner(OWNER)
        return encode_voice(*values, **fields)

    monkeypatch.setattr(engine, "encode_voice", encode)
    with pytest.raises(OwnerDeleted):
        make_voice(app, "Ada", CLIP.read_bytes(), "The words.", owner=OWNER, consent="Ada")
    assert app.storage.voices.list(owner=OWNER) == []


def test_delete_owner_removes_data_everywhere(
    app: AppContext, engine: ForgettingEngine, mark: Marker, path: Path
) -> None:
    app.storage.history.add(mark.spoken(), owner=OWNER)
    app.storage.scripts.create(mark.text(50), [mark.card()], owner=OWNER)
    (trashed, _), (_, voice) = add_voice(app, mark), add_voice(app, mark)
    app.trash_voice(trashed, owner=OWNER)
    take = keep_take(app, mark)
    assert tokens_in_files(path), "the tokens are found before the deletion"
    app.delete_owner(OWNER)
    assert tokens_in_files(path) == set()
    with pytest.raises(TakeNotFound):
        app.takes.get(take.id, owner=OWNER)
    assert cached(engine.dropped[-1]) == cached(voice)
    assert len(engine.dropped) == 2


def test_trash_removes_a_voice_from_the_engine_and_purge_from_the_files(
    app: AppContext, engine: ForgettingEngine, mark: Marker, path: Path
) -> None:
    voice_id, voice = add_voice(app, mark)
    app.trash_voice(voice_id, owner=OWNER)
    assert [cached(each) for each in engine.dropped] == [cached(voice)], "the engine forgets the reencoded codes"
    assert tokens_in_files(path), "it can be restored"
    app.storage.voices.empty_trash(owner=OWNER)
    assert tokens_in_files(path) == set()


def test_a_voice_deleted_or_changed_while_it_is_prepared_is_forgotten(
    app: AppContext, engine: ForgettingEngine, mark: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice_id, voice = add_voice(app, mark)
    engine.capabilities = replace(engine.capabilities, uses_clips=True)
    app.prepare_voice(voice_id, OWNER)
    assert engine.prepared == [voice.name]
    assert engine.dropped == []

    def replace_clips(_: Voice) -> None:
        app.storage.voices.replace_clips(app.storage.voices.get(voice_id, owner=OWNER), voice, owner=OWNER)

    monkeypatch.setattr(engine, "prepare", replace_clips)
    app.prepare_voice(voice_id, OWNER)
    monkeypatch.setattr(engine, "prepare", lambda _: app.storage.voices.trash(voice_id, owner=OWNER))
    app.prepare_voice(voice_id, OWNER)
    assert [each.references for each in engine.dropped] == [voice.references] * 2


def test_deletion_reads_no_clips(
    engine: ForgettingEngine, mark: Marker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take a request to the store for each, and without the store the engine would remember the voices."""
    with Storage.open(tmp_path / "voices.db", audio_store=tmp_path / "sounds") as storage:
        app = AppContext.create(ModelManager(cast(Any, engine)), storage)
        (trashed, first), (_, second) = add_voice(app, mark), add_voice(app, mark)
        monkeypatch.setattr(ObjectStore, "read", Mock(side_effect=DatabaseUnavailable("database.store_failed")))
        app.trash_voice(trashed, owner=OWNER)
        app.delete_owner(OWNER)
    assert [cached(voice) for voice in engine.dropped] == [cached(first), cached(second)]


def test_preparation_reads_clips_only_for_models_that_use_them(
    engine: ForgettingEngine, mark: Marker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Storage.open(tmp_path / "voices.db", audio_store=tmp_path / "sounds") as storage:
        app = AppContext.create(ModelManager(cast(Any, engine)), storage)
        voice_id, voice = add_voice(app, mark)
        read = Mock(side_effect=DatabaseUnavailable("database.store_failed"))
        monkeypatch.setattr(ObjectStore, "read", read)
        app.prepare_voice(voice_id, OWNER)
        assert engine.prepared == [voice.name]
        assert not read.called
        engine.capabilities = replace(engine.capabilities, uses_clips=True)
        app.prepare_voice(voice_id, OWNER)
        assert read.called
        assert engine.prepared == [voice.name]


def test_replaced_clips_leave_the_engine_and_the_files(
    app: AppContext, engine: ForgettingEngine, mark: Marker, path: Path
) -> None:
    voice_id, voice = add_voice(app, mark)
    record = app.storage.voices.update(voice_id, description="", tags=(), owner=OWNER)
    app.storage.voices.purge_expired()
    assert tokens_in_files(path), "those of its clips"
    token = app.storage.deletion_token(owner=OWNER)
    new = unmarked_voice("Ada")
    with pytest.raises(VoiceChanged):
        app.replace_clips(replace(record, updated=datetime.now(UTC)), new, owner=OWNER, deletion_token=token)
    assert engine.dropped == []
    assert app.replace_clips(record, new, owner=OWNER, deletion_token=token).id == voice_id
    assert [cached(each) for each in engine.dropped] == [cached(voice)]
    app.storage.voices.purge_expired()
    assert tokens_in_files(path) == set()


@pytest.mark.parametrize(
    "delete",
    [lambda app, _: app.delete_owner(OWNER), lambda app, voice_id: app.trash_voice(voice_id, owner=OWNER)],
    ids=["everything", "a voice"],
)
def test_failed_deletion_removes_nothing(
    app: AppContext, engine: ForgettingEngine, mark: Marker, delete: Callable[[AppContext, str], None]
) -> None:
    voice_id, _ = add_voice(app, mark)
    take, began = keep_take(app, mark), app.takes.deletion_token(owner=OWNER)
    with failing_deletions(), pytest.raises((DatabaseUnavailable, sqlite3.OperationalError)):
        delete(app, voice_id)
    assert engine.dropped == []
    assert app.takes.audio(take.id, owner=OWNER)
    assert [voice.id for voice in app.storage.voices.list(owner=OWNER)] == [voice_id]
    assert app.takes.save(mark.spoken(), owner=OWNER, deletion_token=began), "takes in progress are kept"
