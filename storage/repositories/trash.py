"""Voices that were deleted and can be put back for a while, within a session that the caller opened.

Such a voice is nowhere to be found, and its name is free, because its row no longer claims it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from engine.errors import VoiceNotFound
from engine.voice import MAX_NAME
from storage.checks import is_id
from storage.models import VoiceRow
from storage.repositories import voices
from storage.repositories.voices import VoiceRecord, fold


def free_name(*, session: Session, owner: str, name: str) -> str:
    """A name that no voice of the owner has: the one given, or else that with the first number that is free."""
    taken = set(session.scalars(select(VoiceRow.name_key).where(VoiceRow.owner == owner)))
    number, free = 1, name
    while fold(free) in taken:
        number += 1
        suffix = f" {number}"
        free = name[: MAX_NAME - len(suffix)].rstrip() + suffix
    return free


def set_aside(*, session: Session, voice_id: str, owner: str, now: datetime) -> VoiceRecord:
    """Delete a voice so that `put_back` can undo it; returns what it was. Raises VoiceNotFound, VoiceProtected."""
    row = voices.lock(session=session, voice_id=voice_id, owner=owner)
    voices.refuse_shared(row)
    before = voices.record(session=session, voice_id=voice_id, owner=owner)
    row.set_aside = now
    row.name_key = f"\n{row.id}"  # no name holds a line break
    session.flush()
    return before


def records(*, session: Session, owner: str, since: datetime) -> list[VoiceRecord]:
    """The owner's voices that were set aside since then, the last one first."""
    found = voices.found_where(session, VoiceRow.owner == owner, VoiceRow.set_aside >= since)
    return sorted(found, key=lambda record: (record.set_aside, record.id), reverse=True)


def put_back(*, session: Session, voice_id: str, owner: str) -> VoiceRecord:
    """Undo `set_aside`, under another name if the voice's own is taken by now. Raises VoiceNotFound."""
    which = (VoiceRow.id == voice_id, VoiceRow.owner == owner, VoiceRow.set_aside.is_not(None))
    row = session.scalar(select(VoiceRow).where(*which).with_for_update()) if is_id(voice_id) else None
    if row is None:
        raise VoiceNotFound(voices.GONE)
    name, updated = free_name(session=session, owner=owner, name=row.name), row.updated
    same = name == row.name
    row.set_aside = None
    session.flush()
    back = voices.update(session=session, voice_id=voice_id, owner=owner, name=name)
    if not same:
        return back
    row.updated = updated  # all is as it was
    session.flush()
    return voices.record(session=session, voice_id=voice_id, owner=owner)


def any_before(*, session: Session, time: datetime) -> bool:
    """Whether anything was set aside before then."""
    return session.scalars(select(VoiceRow.id).where(VoiceRow.set_aside < time)).first() is not None


def remove_before(*, session: Session, time: datetime) -> int:
    """Delete what was set aside before then, of all owners; returns how many there were."""
    return len(session.scalars(delete(VoiceRow).where(VoiceRow.set_aside < time).returning(VoiceRow.id)).all())


def remove_all(*, session: Session, owner: str) -> int:
    """Delete what the owner set aside; returns how many there were."""
    which = delete(VoiceRow).where(VoiceRow.owner == owner, VoiceRow.set_aside.is_not(None))
    return len(session.scalars(which.returning(VoiceRow.id)).all())
