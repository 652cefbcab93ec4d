"""Takes: queries and changes within the caller's session. Lists never read sound."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, delete, exists, func, select, update
from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from engine.voice import MAX_NAME, check_field
from storage.database_errors import damaged
from storage.errors import TakeNotFound
from storage.models import CardRow, CardTakeRow, OwnerSettingsRow, TakeAudioRow, TakeRow
from storage.object_store import StoredSound, read_sound
from storage.repositories import stored_objects
from storage.repositories.folding import fold_for_search
from storage.repositories.owner_settings import RETENTION_DAYS
from storage.repositories.statements import changed_rows
from storage.repositories.voices.usage import VoiceUse, count_use
from storage.validation import (
    Settings,
    check_number,
    check_seed,
    is_id,
    new_id,
    settings_from_json,
    settings_to_json,
)

MAX_TEXT = 500_000  # characters, as are the other text limits
MAX_AUDIO_BYTES = 256 << 20  # about an hour and a half
_MAX_MODEL = 200
_MAX_REASON = 20
_OF_A_CARD = exists().where(CardTakeRow.take_id == TakeRow.id)


class TimedWord(NamedTuple):
    """A word of a text with its times. first, stop: its characters [first, stop). start, end: seconds."""

    first: int
    stop: int
    start: float
    end: float


@dataclass(frozen=True)
class NewTake:
    """A new take to be stored. audio: FLAC. seed, settings, model: reproduce it.

    voice_id: None for a voice that is not saved. duration, first_audio: seconds. stop_reason: the engine's,
    "disconnected" if its listener was gone, or "error". real_time_factor: seconds of work per second of audio.
    words: in order, those whose times the model has reported. Raises InvalidInput.
    """

    text: str
    audio: bytes = field(repr=False)
    duration: float
    seed: int
    voice_name: str
    voice_id: str | None = None
    settings: Settings = field(default_factory=dict)
    model: str = ""
    stop_reason: str = "end"
    real_time_factor: float | None = None
    first_audio: float | None = None
    words: Sequence[TimedWord] = ()
    id: str = field(default_factory=new_id)

    def __post_init__(self) -> None:
        check_field(self.text, "text", MAX_TEXT)
        check_field(self.voice_name, "voice_name", MAX_NAME)
        check_field(self.model, "model_name", _MAX_MODEL)
        check_field(self.stop_reason, "reason", _MAX_REASON)
        check_seed(self.seed)
        check_number(self.duration, "duration", lowest=0)
        check_number(self.real_time_factor, "real_time_factor", lowest=0)
        check_number(self.first_audio, "first_audio", lowest=0)
        if self.voice_id is not None and not is_id(self.voice_id):
            raise InvalidInput("take.no_voice_id")
        if self.duration == 0 or not self.audio.startswith(b"fLaC"):
            raise InvalidInput("take.no_sound")
        if len(self.audio) > MAX_AUDIO_BYTES:
            raise InvalidInput("take.too_long", most=MAX_AUDIO_BYTES >> 20)


@dataclass(frozen=True)
class TakeRecord:
    """A stored take without its sound.

    voice_name: at that time. listed: whether it is in the history; False: only a take of a script. script_id: the
    script that it is a take of, or None. words: as in `NewTake`.
    """

    id: str
    owner: str
    created: datetime  # aware, UTC
    listed: bool
    starred: bool
    text: str
    voice_id: str | None
    voice_name: str
    seed: int
    settings: Mapping[str, str | int | float | bool | None]
    model: str
    duration: float  # seconds
    real_time_factor: float | None
    first_audio: float | None  # seconds
    stop_reason: str
    size: int  # of the sound, bytes
    script_id: str | None
    words: tuple[TimedWord, ...] = ()


@dataclass(frozen=True)
class HistoryPage:
    """A page of matching takes, newest first, and the total number of matches."""

    records: tuple[TakeRecord, ...]
    total: int


@dataclass(frozen=True)
class SpokenVoice:
    """A voice in the history: its latest name there, and the number of its entries."""

    id: str
    name: str
    entries: int


def create(
    *,
    session: Session,
    take: NewTake,
    owner: str,
    now: datetime,
    listed: bool,
    sound: StoredSound | None = None,
) -> str:
    """Store a take and count the use of its voice; return its id.

    sound: as stored; None: in the database. Raises InvalidInput.
    """
    sound = sound or StoredSound(take.audio)
    row = TakeRow(
        id=take.id,
        owner=owner,
        created=now,
        listed=listed,
        starred=False,
        text=take.text,
        search_key=fold_for_search(f"{take.text}\n{take.voice_name}"),
        voice_id=take.voice_id,
        voice_name=take.voice_name,
        seed=take.seed,
        settings=settings_to_json(take.settings),
        model=take.model,
        duration=take.duration,
        real_time_factor=take.real_time_factor,
        first_audio=take.first_audio,
        stop_reason=take.stop_reason,
        size=len(take.audio),
        words=words_to_json(take.words),
    )
    session.add(row)
    session.flush()
    session.add(TakeAudioRow(take_id=row.id, audio=sound.data, object=sound.object))
    stored_objects.keep(session=session, sounds=[sound])
    session.flush()
    if take.voice_id is not None:
        count_use(session=session, owner=owner, voice_id=take.voice_id, use=VoiceUse(1, take.duration))
    return row.id


def page(*, session: Session, owner: str, search: str, starred: bool, voice_id: str | None, limit: int) -> HistoryPage:
    """Return a page of the owner's history. search: words that are all in the text or the voice's name."""
    wanted = [TakeRow.owner == owner, TakeRow.listed]
    wanted += [
        TakeRow.search_key.contains(word, autoescape=True) for word in sorted(set(fold_for_search(search).split()))
    ]
    if starred:
        wanted.append(TakeRow.starred)
    if voice_id is not None:
        wanted.append(TakeRow.voice_id == voice_id)
    total = session.scalar(select(func.count()).select_from(TakeRow).where(*wanted)) or 0
    return HistoryPage(tuple(_records(session, _newest_first().where(*wanted).limit(limit))), total)


def record(*, session: Session, take_id: str, owner: str) -> TakeRecord:
    """Return one take. Raises TakeNotFound, also for another owner's."""
    found = _records(session, _newest_first().where(*_one(take_id, owner)))
    if not found:
        raise TakeNotFound("take.gone")
    return found[0]


def of_card(*, session: Session, card_id: str) -> list[TakeRecord]:
    """Return all takes of a card, newest first."""
    return _records(session, _newest_first().where(CardTakeRow.card_id == card_id))


def chosen(*, session: Session, script_id: str) -> list[TakeRecord]:
    """Return the chosen takes of a script in the order of its cards."""
    query = _newest_first().where(CardRow.script_id == script_id, CardTakeRow.chosen)
    return _records(session, query.order_by(None).order_by(CardRow.position))


def audio(*, session: Session, take_id: str, owner: str) -> bytes:
    """Return the sound, FLAC. Raises TakeNotFound."""
    query = select(TakeAudioRow.audio, TakeAudioRow.object).join(TakeRow, TakeRow.id == TakeAudioRow.take_id)
    found = session.execute(query.where(*_one(take_id, owner))).first()
    if found is None:
        raise TakeNotFound("take.gone")
    return read_sound(session.info, found[0], found[1])


def star(*, session: Session, take_id: str, owner: str, starred: bool) -> TakeRecord:
    """Set or remove the star. A starred take is in the history and stays. Raises TakeNotFound."""
    row = session.scalar(select(TakeRow).where(*_one(take_id, owner)).with_for_update())
    if row is None:
        raise TakeNotFound("take.gone")
    row.starred = starred
    row.listed = row.listed or starred
    session.flush()
    return record(session=session, take_id=take_id, owner=owner)


def remove(*, session: Session, take_id: str, owner: str) -> None:
    """Delete a take, also if it is a take of a card. Raises TakeNotFound."""
    if not _delete(session, *_one(take_id, owner)):
        raise TakeNotFound("take.gone")


def remove_all(*, session: Session, owner: str) -> int:
    """Delete all takes of an owner, including takes of scripts; return their number."""
    return _delete(session, TakeRow.owner == owner)


def withdraw(*, session: Session, take_id: str, owner: str) -> None:
    """Remove a take from the history; delete it unless it is a script's take. Raises TakeNotFound."""
    if not _withdraw(session, *_one(take_id, owner)):
        raise TakeNotFound("take.gone")


def clear(*, session: Session, owner: str) -> int:
    """Remove all takes, including starred ones, from the history as `withdraw` does; return their number."""
    return _withdraw(session, TakeRow.owner == owner, TakeRow.listed.is_(True))


def voices(*, session: Session, owner: str) -> list[SpokenVoice]:
    """Return the voices in the history, including deleted ones, most recently used first."""
    last, entries = func.max(TakeRow.created), func.count()
    query = (
        select(TakeRow.voice_id, TakeRow.voice_name, entries)
        .where(TakeRow.owner == owner, TakeRow.listed, TakeRow.voice_id.is_not(None))
        .group_by(TakeRow.voice_id, TakeRow.voice_name)
        .order_by(last.desc(), TakeRow.voice_name)
    )
    found: dict[str, SpokenVoice] = {}
    for voice_id, name, count in session.execute(query):
        assert voice_id is not None, "the query excludes NULL"
        known = found.get(voice_id, SpokenVoice(voice_id, name, 0))
        found[voice_id] = SpokenVoice(voice_id, known.name, known.entries + count)
    return list(found.values())


def expire(*, session: Session, now: datetime) -> int:
    """Delete takes older than their owner's retention, except starred ones; return their number.

    Those of cards are only removed from the history.
    """
    own_days = select(OwnerSettingsRow.retention_days).where(OwnerSettingsRow.owner == TakeRow.owner)
    days_kept = func.coalesce(own_days.scalar_subquery(), RETENTION_DAYS)
    choices = {RETENTION_DAYS, *session.scalars(select(OwnerSettingsRow.retention_days).distinct())}
    deleted = 0
    for days in choices:
        old = (TakeRow.created < now - timedelta(days=days), days_kept == days, ~TakeRow.starred)
        _unlist(session, *old, TakeRow.listed.is_(True), _OF_A_CARD)
        deleted += _delete(session, *old, ~_OF_A_CARD)
    return deleted


def delete_of_cards(*, session: Session, card_ids: Select[str] | list[str]) -> None:
    """Delete the takes of cards that are about to be deleted, except those in the history."""
    of_cards = TakeRow.id.in_(select(CardTakeRow.take_id).where(CardTakeRow.card_id.in_(card_ids)))
    # Locked, so that one that is withdrawn meanwhile does not stay without a card.
    session.scalars(select(TakeRow.id).where(of_cards).with_for_update()).all()
    _delete(session, of_cards, ~TakeRow.listed)


def _withdraw(session: Session, *which: ColumnElement[bool]) -> int:
    return _unlist(session, *which, _OF_A_CARD) + _delete(session, *which, ~_OF_A_CARD)


def _unlist(session: Session, *which: ColumnElement[bool]) -> int:
    return changed_rows(session, update(TakeRow).where(*which).values(listed=False, starred=False))


def _delete(session: Session, *which: ColumnElement[bool]) -> int:
    return changed_rows(session, delete(TakeRow).where(*which))


def _one(take_id: str, owner: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    if not is_id(take_id):
        raise TakeNotFound("take.gone")
    return TakeRow.id == take_id, TakeRow.owner == owner


@cache  # building it takes longer than adding conditions
def _newest_first() -> Select[TakeRow, str | None]:
    """Query takes with the script that they belong to, newest first."""
    return (
        select(TakeRow, CardRow.script_id)
        .outerjoin(CardTakeRow, CardTakeRow.take_id == TakeRow.id)
        .outerjoin(CardRow, CardRow.id == CardTakeRow.card_id)
        .order_by(TakeRow.created.desc(), TakeRow.id.desc())
    )


def _records(session: Session, query: Select[TakeRow, str | None]) -> list[TakeRecord]:
    return [_record(*found) for found in session.execute(query)]


def _record(row: TakeRow, script_id: str | None) -> TakeRecord:
    return TakeRecord(
        id=row.id,
        owner=row.owner,
        created=row.created,
        listed=row.listed,
        starred=row.starred,
        text=row.text,
        voice_id=row.voice_id,
        voice_name=row.voice_name,
        seed=row.seed,
        settings=settings_from_json(row.settings),
        model=row.model,
        duration=row.duration,
        real_time_factor=row.real_time_factor,
        first_audio=row.first_audio,
        stop_reason=row.stop_reason,
        size=row.size,
        script_id=script_id,
        words=words_from_json(row.words),
    )


def words_to_json(words: Sequence[TimedWord]) -> str | None:
    """Encode words as [first character, length, start in ms, duration in ms]; None if there are none."""
    rows = [
        (word.first, word.stop - word.first, round(1000 * word.start), round(1000 * (word.end - word.start)))
        for word in words
    ]
    return json.dumps(rows, separators=(",", ":")) if rows else None


def words_from_json(written: str | None) -> tuple[TimedWord, ...]:
    """Decode what `words_to_json` wrote. Raises DatabaseUnavailable for anything else."""
    try:
        rows = json.loads(written or "[]")
        return tuple(
            TimedWord(first, first + length, start / 1000, (start + seconds) / 1000)
            for first, length, start, seconds in rows
        )
    except (TypeError, ValueError) as error:
        raise damaged("times of words that are not four numbers each") from error
