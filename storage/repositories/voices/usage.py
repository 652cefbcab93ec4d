"""Use of voices and of disk space: queries and changes within the caller's session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    ScalarSelect,
    Select,
    SQLColumnExpression,
    delete,
    func,
    literal,
    select,
    union,
    update,
)
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
    found = session.execute(select(*_bytes(literal(owner)))).one()
    return _storage_use(found)


def owners(*, session: Session) -> list[str]:
    """Return all owners of any data, in alphabetical order; the shared voices have none."""
    return sorted(owner for owner in session.scalars(_owners()) if owner != SHARED)


def owner_counts(*, session: Session, owner: str) -> OwnerCounts:
    """Return counts of an owner's data, without the trash."""
    found = session.execute(select(*_counts(literal(owner)), *_bytes(literal(owner)))).one()
    return _owner_counts(found)


def all_counts(*, session: Session) -> dict[str, OwnerCounts]:
    """Return the counts of all owners of any data, in alphabetical order."""
    all_owners = _owners().subquery()
    owner = all_owners.c.owner
    found = session.execute(select(owner, *_counts(owner), *_bytes(owner)).where(owner != SHARED))
    return {each: _owner_counts(numbers) for each, *numbers in sorted(map(tuple, found))}


def _owners() -> CompoundSelect[str]:
    return union(*(select(table.c.owner) for table in Base.metadata.sorted_tables if "owner" in table.c))


def _counts(owner: ColumnElement[str]) -> list[ScalarSelect[int]]:
    """Return the queries of an owner's counts, in the order of `OwnerCounts`; they are correlated with its column."""
    of_cards = select(func.count()).select_from(CardTakeRow).join(TakeRow, TakeRow.id == CardTakeRow.take_id)
    queries = (
        select(func.count()).where(VoiceRow.owner == owner, VoiceRow.trashed.is_(None)),
        select(func.count()).where(TakeRow.owner == owner, TakeRow.listed),
        select(func.count()).where(TakeRow.owner == owner, TakeRow.listed, TakeRow.starred),
        select(func.count()).where(ScriptRow.owner == owner),
        of_cards.where(TakeRow.owner == owner),
    )
    return [query.scalar_subquery() for query in queries]


def _bytes(owner: ColumnElement[str]) -> list[ScalarSelect[int]]:
    """Return the queries of the bytes of an owner's takes, then of all that makes up their voices.

    They are not grouped by owner: a group is sorted with the clips that a total is taken of.
    """
    own = (VoiceRow.owner == owner, VoiceRow.trashed.is_(None))

    def of_voices(
        bytes_of_each: SQLColumnExpression[int], row: type[ReferenceRow | CodesRow | PortraitRow]
    ) -> Select[int]:
        return select(func.sum(bytes_of_each)).select_from(VoiceRow).join(row, row.voice_id == VoiceRow.id).where(*own)

    of_consents = (
        select(func.sum(func.length(ConsentRecordingRow.recording)))
        .select_from(VoiceConsentRow)
        .join(ConsentRecordingRow, ConsentRecordingRow.consent_id == VoiceConsentRow.id)
        .where(VoiceConsentRow.owner == owner)
    )
    stored = func.sum(StoredObjectRow.size)
    queries = (
        select(func.sum(TakeRow.size)).where(TakeRow.owner == owner),
        of_voices(func.length(ReferenceRow.clip), ReferenceRow),
        of_voices(func.length(CodesRow.codes), CodesRow),
        of_voices(func.length(PortraitRow.picture), PortraitRow),
        of_voices(StoredObjectRow.size, ReferenceRow).join(
            StoredObjectRow, StoredObjectRow.name == ReferenceRow.object
        ),
        of_consents,
        of_consents.with_only_columns(stored).join(StoredObjectRow, StoredObjectRow.name == ConsentRecordingRow.object),
    )
    return [query.scalar_subquery() for query in queries]


def _storage_use(numbers: Sequence[int | None]) -> StorageUse:
    takes, *voices = (number or 0 for number in numbers)
    return StorageUse(sum(voices), takes)


def _owner_counts(numbers: Sequence[int | None]) -> OwnerCounts:
    voices, history, starred, scripts, takes, *sizes = numbers
    return OwnerCounts(voices or 0, history or 0, starred or 0, scripts or 0, takes or 0, _storage_use(sizes))


def remove_uses(*, session: Session, owner: str) -> None:
    """Delete the owner's counts of uses."""
    session.execute(delete(VoiceUseRow).where(VoiceUseRow.owner == owner))


def _add_use(session: Session, owner: str, voice_id: str, use: VoiceUse) -> bool:
    known = update(VoiceUseRow).where(VoiceUseRow.owner == owner, VoiceUseRow.voice_id == voice_id)
    more = known.values(times=VoiceUseRow.times + use.times, seconds=VoiceUseRow.seconds + use.seconds)
    return changed_rows(session, more) > 0
