"""Use of voices and of disk space: queries and changes within the caller's session."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, select, union, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from storage.models import (
    SHARED,
    Base,
    CardTakeRow,
    CodesRow,
    ConsentRecordingRow,
    PortraitRow,
    ReferenceRow,
    ScriptRow,
    StoredObjectRow,
    TakeRow,
    VoiceConsentRow,
    VoiceRow,
    VoiceUseRow,
)
from storage.repositories.statements import changed_rows


@dataclass(frozen=True)
class VoiceUse:
    """How often an owner used a voice, and the total seconds."""

    times: int
    seconds: float


@dataclass(frozen=True)
class StorageUse:
    """Bytes of an owner's data. voices: clips, codes, pictures and consents. takes: sound."""

    voices: int
    takes: int

    @property
    def total(self) -> int:
        """The sum, in bytes."""
        return self.voices + self.takes


@dataclass(frozen=True)
class OwnerCounts:
    """Counts of an owner's data. voices: without shared ones. history: entries; starred: those with a star.

    takes: of scripts, whether in the history or not.
    """

    voices: int
    history: int
    starred: int
    scripts: int
    takes: int
    storage: StorageUse

    @property
    def empty(self) -> bool:
        """Whether the owner has no data."""
        return not (self.voices or self.history or self.scripts or self.takes or self.storage.total)


def count_use(*, session: Session, owner: str, voice_id: str, use: VoiceUse) -> None:
    """Count further uses of a voice."""
    if _add_use(session, owner, voice_id, use):
        return
    try:
        with session.begin_nested():
            session.add(VoiceUseRow(owner=owner, voice_id=voice_id, times=use.times, seconds=use.seconds))
    except IntegrityError:  # another transaction has just counted the first use
        _add_use(session, owner, voice_id, use)


def voice_uses(*, session: Session, owner: str) -> dict[str, VoiceUse]:
    """Return the uses by voice id, without voices that were never used."""
    rows = session.scalars(select(VoiceUseRow).where(VoiceUseRow.owner == owner))
    return {row.voice_id: VoiceUse(row.times, row.seconds) for row in rows}


def storage_use(*, session: Session, owner: str) -> StorageUse:
    """Return the bytes of an owner's data without the trash, without reading clips or sound."""
    own = select(VoiceRow.id).where(VoiceRow.owner == owner, VoiceRow.trashed.is_(None))
    clips = select(func.sum(func.length(ReferenceRow.clip))).where(ReferenceRow.voice_id.in_(own))
    codes = select(func.sum(func.length(CodesRow.codes))).where(CodesRow.voice_id.in_(own))
    pictures = select(func.sum(func.length(PortraitRow.picture))).where(PortraitRow.voice_id.in_(own))
    consents = select(VoiceConsentRow.id).where(VoiceConsentRow.owner == owner)
    recordings = select(func.sum(func.length(ConsentRecordingRow.recording))).where(
        ConsentRecordingRow.consent_id.in_(consents)
    )
    of_clips = select(ReferenceRow.object).where(ReferenceRow.voice_id.in_(own))
    of_recordings = select(ConsentRecordingRow.object).where(ConsentRecordingRow.consent_id.in_(consents))
    objects = select(func.sum(StoredObjectRow.size)).where(
        StoredObjectRow.name.in_(of_clips) | StoredObjectRow.name.in_(of_recordings)
    )
    sounds = select(func.sum(TakeRow.size)).where(TakeRow.owner == owner)
    of_voices = sum(session.scalar(query) or 0 for query in (clips, codes, pictures, recordings, objects))
    return StorageUse(of_voices, session.scalar(sounds) or 0)


def owners(*, session: Session) -> list[str]:
    """Return all owners of any data, in alphabetical order; the shared voices have none."""
    owned = [table.c.owner for table in Base.metadata.sorted_tables if "owner" in table.c]
    return sorted(owner for owner in session.scalars(union(*map(select, owned))) if owner != SHARED)


def owner_counts(*, session: Session, owner: str) -> OwnerCounts:
    """Return counts of an owner's data, without the trash."""
    own = TakeRow.owner == owner
    takes = select(func.count()).select_from(CardTakeRow).join(TakeRow, TakeRow.id == CardTakeRow.take_id)
    queries = (
        select(func.count()).where(VoiceRow.owner == owner, VoiceRow.trashed.is_(None)),
        select(func.count()).where(own, TakeRow.listed),
        select(func.count()).where(own, TakeRow.listed, TakeRow.starred),
        select(func.count()).where(ScriptRow.owner == owner),
        takes.where(own),
    )
    voices, history, starred, scripts, of_scripts = (session.scalar(query) or 0 for query in queries)
    storage = storage_use(session=session, owner=owner)
    return OwnerCounts(voices, history, starred, scripts, of_scripts, storage)


def remove_uses(*, session: Session, owner: str) -> None:
    """Delete the owner's counts of uses."""
    session.execute(delete(VoiceUseRow).where(VoiceUseRow.owner == owner))


def _add_use(session: Session, owner: str, voice_id: str, use: VoiceUse) -> bool:
    known = update(VoiceUseRow).where(VoiceUseRow.owner == owner, VoiceUseRow.voice_id == voice_id)
    more = known.values(times=VoiceUseRow.times + use.times, seconds=VoiceUseRow.seconds + use.seconds)
    return changed_rows(session, more) > 0
