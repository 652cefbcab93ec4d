"""The objects in the store of sounds: queries and changes within the caller's session.

An object is noted before it is written, and marked as kept in the transaction that stores the row referring to it.
After a crash in between, `give_up` marks the object by its note, and `unused` finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import delete, exists, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from storage.errors import DatabaseUnavailable
from storage.models import ConsentRecordingRow, ReferenceRow, StoredObjectRow, TakeAudioRow
from storage.object_store import StoredSound
from storage.repositories.statements import changed_rows

REFERRING: tuple[InstrumentedAttribute[str | None], ...] = (
    ReferenceRow.object,
    TakeAudioRow.object,
    ConsentRecordingRow.object,
)


def note(*, session: Session, names: Iterable[str], now: datetime) -> None:
    """Note objects that are about to be written."""
    session.add_all(StoredObjectRow(name=name, size=0, created=now, kept=False) for name in names)


def keep(*, session: Session, sounds: Iterable[StoredSound]) -> None:
    """Mark the objects of these sounds as referred to. Raises DatabaseUnavailable for one that was given up.

    That happens if the machine sleeps between `note` and this.
    """
    for sound in sounds:
        if sound.object is not None:
            kept = update(StoredObjectRow).where(StoredObjectRow.name == sound.object, ~StoredObjectRow.kept)
            if not changed_rows(session, kept.values(kept=True, size=sound.size)):
                detail = f"The object {sound.object} was deleted before it was referred to."
                raise DatabaseUnavailable("database.store_failed", detail=detail)


def never_kept(*, session: Session, names: Sequence[str]) -> list[str]:
    """Return those of these objects that no transaction has kept. Waits for transactions that are keeping them."""
    query = select(StoredObjectRow.name, StoredObjectRow.kept).where(StoredObjectRow.name.in_(names))
    kept = {name for name, is_kept in session.execute(query.with_for_update()) if is_kept}
    return [name for name in names if name not in kept]


def give_up(*, session: Session, before: datetime) -> None:
    """Count the objects that were noted before `before` and never kept as unused; `keep` refuses them from then on."""
    late = update(StoredObjectRow).where(~StoredObjectRow.kept, StoredObjectRow.created < before)
    changed_rows(session, late.values(kept=True))


def unused(*, session: Session) -> list[str]:
    """Return the objects that no row refers to, and none will."""
    query = select(StoredObjectRow.name).where(StoredObjectRow.kept)
    return list(session.scalars(query.where(*(~exists().where(each == StoredObjectRow.name) for each in REFERRING))))


def forget(*, session: Session, names: Sequence[str]) -> None:
    """Delete the notes of deleted objects."""
    session.execute(delete(StoredObjectRow).where(StoredObjectRow.name.in_(names)))
