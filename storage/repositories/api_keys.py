"""API keys: queries and changes within the caller's session.

A key has 256 random bits, so that its plain SHA-256 cannot be reversed; the key itself is not stored.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import BigInteger, ColumnElement, case, cast, delete, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from engine.errors import InvalidName
from engine.voice import clean_name
from storage.errors import KeyNotFound, NameTaken, VoiceNotFound
from storage.models import ApiKeyRow
from storage.repositories.statements import changed_rows
from storage.repositories.voices.voices import record_by_name
from storage.validation import new_id, settings_from_json, settings_to_json

PREFIX = "rp-"
HINT = 8  # characters of a key that are stored for recognition


@dataclass(frozen=True)
class Allowance:
    """A limit of `amount` within `seconds`."""

    amount: int
    seconds: int


@dataclass(frozen=True)
class NewKey:
    """A key to be created. Fields as for `KeyRecord`, but voices: all by name."""

    name: str
    owner: str
    expires: datetime | None = None
    rate: Allowance | None = None
    quota: Allowance | None = None
    voices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyRecord:
    """A key without its secret.

    hint: its first characters. owner: whose voices it can use. rate: limit of requests. quota: limit of spoken
    characters; used: those in the current period. voices: by the aliases that clients use, the ids of the owner's saved
    voices, and the names of others: sample voices and a model's own.
    """

    id: str
    hint: str
    name: str
    owner: str
    expires: datetime | None
    rate: Allowance | None
    quota: Allowance | None
    used: int
    voices: Mapping[str, str]


def create(*, session: Session, new: NewKey, now: datetime) -> tuple[KeyRecord, str]:
    """Store a new key. Return its record and the key, which cannot be recovered later. Raises NameTaken."""
    key = PREFIX + secrets.token_urlsafe(32)
    row = ApiKeyRow(
        id=new_id(),
        digest=_digest(key),
        hint=key[:HINT],
        name=new.name,
        owner=new.owner,
        created=now,
        expires=new.expires,
        rate=new.rate and new.rate.amount,
        rate_seconds=new.rate and new.rate.seconds,
        quota=new.quota and new.quota.amount,
        quota_seconds=new.quota and new.quota.seconds,
        used=0,
        period=0,
        voices=settings_to_json({alias: _target(session, new.owner, name) for alias, name in new.voices.items()}),
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError as error:
        raise NameTaken(f"There is a key “{new.name}” already; choose another name or revoke that one.") from error
    return _record(row, now), key


def records(*, session: Session, now: datetime) -> list[KeyRecord]:
    """Return all keys, including expired ones, by name."""
    return [_record(row, now) for row in session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.name))]


def find(*, session: Session, key: str, now: datetime) -> KeyRecord | None:
    """Return the record of a key that is valid now."""
    row = session.scalar(select(ApiKeyRow).where(ApiKeyRow.digest == _digest(key), _valid(now)))
    return _record(row, now) if row else None


def get(*, session: Session, key_id: str, now: datetime) -> KeyRecord | None:
    """Return the record of the key with an id if it is valid now."""
    row = session.scalar(select(ApiKeyRow).where(ApiKeyRow.id == key_id, _valid(now)))
    return _record(row, now) if row else None


def any_key(*, session: Session) -> bool:
    """Whether there is any key, expired ones included."""
    return session.scalar(select(ApiKeyRow.id).limit(1)) is not None


def revoke(*, session: Session, name: str) -> None:
    """Delete a key. Raises KeyNotFound."""
    if not changed_rows(session, delete(ApiKeyRow).where(ApiKeyRow.name == name)):
        raise KeyNotFound(f"There is no key “{name}”.")


def spend(*, session: Session, key_id: str, characters: int, now: datetime) -> bool:
    """Count characters against a key's quota atomically. Return False, and count none, if they would exceed it."""
    row = session.get(ApiKeyRow, key_id)
    if row is None or row.quota is None or row.quota_seconds is None:
        return row is not None
    period = _period(now, row.quota_seconds)
    # Of the type of `used`, the sum could be out of range in PostgreSQL.
    before = cast(case((ApiKeyRow.period == period, ApiKeyRow.used), else_=max(0, -characters)), BigInteger)
    allowed = update(ApiKeyRow).where(ApiKeyRow.id == key_id, before + characters <= ApiKeyRow.quota)
    return changed_rows(session, allowed.values(used=before + characters, period=period)) > 0


def remove_all(*, session: Session, owner: str) -> None:
    """Delete the keys of an owner."""
    session.execute(delete(ApiKeyRow).where(ApiKeyRow.owner == owner))


def _record(row: ApiKeyRow, now: datetime) -> KeyRecord:
    quota = _allowance(row.quota, row.quota_seconds)
    current = quota is not None and row.period == _period(now, quota.seconds)
    return KeyRecord(
        id=row.id,
        hint=row.hint,
        name=row.name,
        owner=row.owner,
        expires=row.expires,
        rate=_allowance(row.rate, row.rate_seconds),
        quota=quota,
        used=row.used if current else 0,
        voices={alias: str(target) for alias, target in settings_from_json(row.voices).items()},
    )


def _target(session: Session, owner: str, name: str) -> str:
    """Return what is stored for an alias of a voice: an id follows renames, but the ids of sample voices change."""
    try:
        found = record_by_name(session=session, name=clean_name(name), owner=owner)
    except (InvalidName, VoiceNotFound):
        return name
    return name if found.shared else found.id


def _allowance(amount: int | None, seconds: int | None) -> Allowance | None:
    return None if amount is None or seconds is None else Allowance(amount, seconds)


def _valid(now: datetime) -> ColumnElement[bool]:
    return or_(ApiKeyRow.expires.is_(None), ApiKeyRow.expires > now)


def _period(now: datetime, seconds: int) -> int:
    """Return the number of a quota's period, counted from 1970 so that all processes agree."""
    return int(now.timestamp()) // seconds


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
