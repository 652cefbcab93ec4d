"""The trash: deleted voices that can be restored for a while. Functions work within the caller's session.

No other query finds a voice in the trash, and its name is free because its row gives up `name_key`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from engine.voice import MAX_NAME
from storage.errors import VoiceNotFound
from storage.models import VoiceRow
from storage.repositories import owner_deletions
from storage.repositories.folding import fold_case
from storage.repositories.statements import changed_rows
from storage.repositories.voices import voices
from storage.repositories.voices.voices import VoiceRecord
from storage.validation import is_id


def free_name(*, session: Session, owner: str, name: str) -> str:
    """Return a name that no voice of the owner has: the given one, else with the first free number appended."""
    taken = set(session.scalars(select(VoiceRow.name_key).where(VoiceRow.owner == owner)))
    number, free = 1, name
    while fold_case(free) in taken:
        number += 1
        suffix = f" {number}"
        free = name[: MAX_NAME - len(suffix)].rstrip() + suffix
    return free


def add(*, session: Session, voice_id: str, owner: str, now: datetime) -> VoiceRecord:
    """Move a voice to the trash; return it as it was. Raises VoiceNotFound, VoiceProtected."""
    row = voices.lock_row(session=session, voice_id=voice_id, owner=owner)
    voices.refuse_shared(row)
    before = voices.record(session=session, voice_id=voice_id, owner=owner)
    row.trashed = now
    row.name_key = f"\n{row.id}"  # unique: no name contains a line break
    session.flush()
    return before


def records(*, session: Session, owner: str, since: datetime) -> list[VoiceRecord]:
    """Return the owner's voices that were moved to the trash since then, newest first."""
    found = voices.find_where(session, VoiceRow.owner == owner, VoiceRow.trashed >= since)
    return sorted(found, key=lambda record: (record.trashed, record.id), reverse=True)


def restore(*, session: Session, voice_id: str, owner: str) -> VoiceRecord:
    """Restore a voice, under another name if its own has been taken. Raises VoiceNotFound."""
    owner_deletions.lock(session=session, owner=owner)  # two calls would find the same free name
    which = (VoiceRow.id == voice_id, VoiceRow.owner == owner, VoiceRow.trashed.is_not(None))
    row = session.scalar(select(VoiceRow).where(*which).with_for_update()) if is_id(voice_id) else None
    if row is None:
        raise VoiceNotFound("voices.gone")
    name, updated = free_name(session=session, owner=owner, name=row.name), row.updated
    same = name == row.name
    row.trashed = None
    session.flush()
    back = voices.update(session=session, voice_id=voice_id, owner=owner, name=name)
    if not same:
        return back
    row.updated = updated  # as before it was moved to the trash
    session.flush()
    return voices.record(session=session, voice_id=voice_id, owner=owner)


def has_expired(*, session: Session, before: datetime) -> bool:
    """Whether any voice was moved to the trash before then."""
    return session.scalars(select(VoiceRow.id).where(VoiceRow.trashed < before)).first() is not None


def purge(*, session: Session, before: datetime) -> int:
    """Delete the voices of all owners that were moved to the trash before then; return their number."""
    return changed_rows(session, delete(VoiceRow).where(VoiceRow.trashed < before))


def empty(*, session: Session, owner: str) -> int:
    """Delete the owner's voices in the trash; return their number."""
    return changed_rows(session, delete(VoiceRow).where(VoiceRow.owner == owner, VoiceRow.trashed.is_not(None)))
