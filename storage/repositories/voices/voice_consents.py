"""Recorded consents to cloning: queries and changes within the caller's session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, delete, or_, select
from sqlalchemy.orm import Session

from storage.errors import ConsentNotFound
from storage.models import ConsentRecordingRow, VoiceConsentRow
from storage.object_store import StoredSound, read_sound
from storage.repositories import stored_objects
from storage.validation import is_id, new_id


@dataclass(frozen=True)
class ConsentRecord:
    """A recorded consent without its recording. name: a label, usually the speaker's name."""

    id: str
    created: datetime  # aware, UTC
    name: str
    language: str


def create(
    *, session: Session, name: str, language: str, recording: StoredSound, owner: str, now: datetime
) -> ConsentRecord:
    """Store a recorded consent."""
    row = VoiceConsentRow(id=new_id(), owner=owner, created=now, name=name, language=language)
    session.add(row)
    session.flush()
    session.add(ConsentRecordingRow(consent_id=row.id, recording=recording.data, object=recording.object))
    stored_objects.keep(session=session, sounds=[recording])
    session.flush()
    return _record(row)


def records(*, session: Session, owner: str, after: str | None = None) -> list[ConsentRecord]:
    """Return an owner's consents, newest first. after: an id to start after; raises ConsentNotFound if unknown."""
    latest = select(VoiceConsentRow).where(VoiceConsentRow.owner == owner)
    if after is not None:
        last, created = _row(session, after, owner), VoiceConsentRow.created
        same_time = and_(created == last.created, VoiceConsentRow.id > last.id)
        latest = latest.where(or_(created < last.created, same_time))
    rows = session.scalars(latest.order_by(VoiceConsentRow.created.desc(), VoiceConsentRow.id))
    return [_record(row) for row in rows]


def record(*, session: Session, consent_id: str, owner: str) -> ConsentRecord:
    """Return one consent. Raises ConsentNotFound, also for another owner's."""
    return _record(_row(session, consent_id, owner))


def recording(*, session: Session, consent_id: str, owner: str) -> bytes:
    """Return the recording of a consent, as it was uploaded. Raises ConsentNotFound."""
    row = _row(session, consent_id, owner)
    found = session.get_one(ConsentRecordingRow, row.id)
    return read_sound(session.info, found.recording, found.object)


def rename(*, session: Session, consent_id: str, name: str, owner: str) -> ConsentRecord:
    """Change a consent's label. Raises ConsentNotFound."""
    row = _row(session, consent_id, owner)
    row.name = name
    session.flush()
    return _record(row)


def remove(*, session: Session, consent_id: str, owner: str) -> None:
    """Delete a consent with its recording. Raises ConsentNotFound."""
    row = _row(session, consent_id, owner)
    session.execute(delete(VoiceConsentRow).where(VoiceConsentRow.id == row.id))


def remove_all(*, session: Session, owner: str) -> None:
    """Delete the consents of an owner."""
    session.execute(delete(VoiceConsentRow).where(VoiceConsentRow.owner == owner))


def _row(session: Session, consent_id: str, owner: str) -> VoiceConsentRow:
    own = select(VoiceConsentRow).where(VoiceConsentRow.id == consent_id, VoiceConsentRow.owner == owner)
    row = session.scalar(own) if is_id(consent_id) else None
    if row is None:
        raise ConsentNotFound("There is no such consent; create one, or list those that there are.")
    return row


def _record(row: VoiceConsentRow) -> ConsentRecord:
    return ConsentRecord(id=row.id, created=row.created, name=row.name, language=row.language)
