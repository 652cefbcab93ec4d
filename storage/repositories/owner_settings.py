"""What an owner wants kept: reading and changing it within a session that the caller opened."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from storage.checks import check_number
from storage.models import OwnerSettingsRow

RETENTION_DAYS = 30  # where the owner has said nothing
MAX_RETENTION_DAYS = 3650


@dataclass(frozen=True)
class OwnerSettings:
    """history: whether new generations are kept. retention_days: for how long, unless starred; 1 to 3,650.

    Raises InvalidInput.
    """

    history: bool = True
    retention_days: int = RETENTION_DAYS

    def __post_init__(self) -> None:
        check_number(self.retention_days, "number of days", lowest=1, highest=MAX_RETENTION_DAYS)


def load(*, session: Session, owner: str) -> OwnerSettings:
    """The owner's settings, or the defaults."""
    row = session.get(OwnerSettingsRow, owner)
    return OwnerSettings(row.history, row.retention_days) if row else OwnerSettings()


def change(*, session: Session, owner: str, history: bool | None, retention_days: int | None) -> OwnerSettings:
    """Change what is not None. Raises InvalidInput."""
    row = _locked(session, owner)
    settings = OwnerSettings(row.history, row.retention_days)
    if history is not None:
        settings = replace(settings, history=history)
    if retention_days is not None:
        settings = replace(settings, retention_days=retention_days)
    row.history, row.retention_days = settings.history, settings.retention_days
    return settings


def remove(*, session: Session, owner: str) -> None:
    """Back to the defaults."""
    session.execute(delete(OwnerSettingsRow).where(OwnerSettingsRow.owner == owner))


def _locked(session: Session, owner: str) -> OwnerSettingsRow:
    """The owner's row, made if there is none, kept from other writers until the transaction ends."""
    query = select(OwnerSettingsRow).where(OwnerSettingsRow.owner == owner).with_for_update()
    if (row := session.scalar(query)) is not None:
        return row
    try:
        with session.begin_nested():
            session.add(row := OwnerSettingsRow(owner=owner, history=True, retention_days=RETENTION_DAYS))
        return row
    except IntegrityError:  # another made it this moment
        return session.scalars(query).one()
