"""Deletions of all data of an owner: queries and changes within the caller's session.

Making a take takes a while, as does making a voice, a consent or a script of an upload. If all data of its owner was
deleted meanwhile, in any process, the token of the last deletion has changed, and it must not be stored.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from storage.errors import OwnerDeleted
from storage.models import OwnerDeletionRow
from storage.repositories.statements import put_row
from storage.validation import new_id

KEPT = timedelta(days=2)  # nothing is made for longer

NEVER = ""  # the token of an owner whose data was not deleted in the last days


def deletion_token(*, session: Session, owner: str) -> str:
    """Return the token of the owner's last deletion, or NEVER."""
    query = select(OwnerDeletionRow.mark).where(OwnerDeletionRow.owner_digest == _digest(owner).hex())
    return session.scalar(query) or NEVER


def has_changed(now: str, before: str) -> bool:
    """Whether there was a deletion between the reading of two tokens."""
    return now not in (before, NEVER)


def refuse_deleted(*, session: Session, owner: str, before: str | None) -> None:
    """Raise OwnerDeleted if there was a deletion after the token `before`; else exclude one until the transaction ends.

    before: None for what is made at once.
    """
    lock(session=session, owner=owner)
    if before is not None and has_changed(deletion_token(session=session, owner=owner), before):
        raise OwnerDeleted


def add(*, session: Session, owner: str, now: datetime) -> None:
    """Record a deletion. Until the transaction ends, nothing in progress is stored."""
    lock(session=session, owner=owner)
    values = {"owner_digest": _digest(owner).hex(), "mark": new_id(), "created": now}
    put_row(session=session, table=OwnerDeletionRow, key=["owner_digest"], values=values)


def lock(*, session: Session, owner: str) -> None:
    """Exclude deletions of the owner's data, and other callers, until the transaction ends."""
    if session.get_bind().dialect.name == "postgresql":  # SQLite has only one writer at a time
        key = int.from_bytes(_digest(owner)[:8], "big", signed=True)
        session.execute(select(func.pg_advisory_xact_lock(key)))


def expire(*, session: Session, now: datetime) -> None:
    """Delete the records of old deletions."""
    session.execute(delete(OwnerDeletionRow).where(OwnerDeletionRow.created < now - KEPT))


def _digest(owner: str) -> bytes:
    return hashlib.sha256(owner.encode()).digest()
