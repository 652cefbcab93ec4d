"""Settings of an owner's history: queries and changes within the caller's session."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from storage.models import OwnerSettingsRow
from storage.validation import check_number

RETENTION_DAYS = 30  # the default
MAX_RETENTION_DAYS = 3650


@dataclass(frozen=True)
class OwnerSettings:
    """An owner's settings. history: whether new takes are kept. retention_days: how long, 1 to 3,650.

    Starred takes are kept indefinitely. Raises InvalidInput.
    """

    history: bool = True
    retention_days: int = RETENTION_DAYS

    def __post_init__(self) -> None:
        check_number(self.retention_days, "days", lowest=1, highest=MAX_RETENTION_DAYS)


def load(*, session: Session, owner: str) -> OwnerSettings:
    """Return the owner's settings, or the defaults."""
    row = session.get(OwnerSettingsRow, owner)
    return OwnerSettings(row.history, row.retention_days) if row else OwnerSettings()


def change(*, session: Session, owner: str, history: bool | None, retention_days: int | None) -> OwnerSettings:
    """Change the settings that are not None. Raises InvalidInput."""
    row = _locked(session, owner)
    settings = OwnerSettings(row.history, row.retention_days)
    if history is not None:
        settings = replace(settings, history=history)
    if retention_days is not None:
        settings = replace(settings, retention_days=retention_days)
    row.history, row.retention_days = settings.history, settings.retention_days
    return settings


def remove(*, session: Session, owner: str) -> None:
    """Reset to the defaults."""
    session.execute(delete(OwnerSettingsRow).where(OwnerSettingsRow.owner == owner))


def _locked(session: Session, owner: str) -> OwnerSettingsRow:
    """Lock and return the owner's row, created if missing, until the transaction ends."""
    query = select(OwnerSettingsRow).where(OwnerSettingsRow.owner == owner).with_for_update()
    if (row := session.scalar(query)) is not None:
        return row
    try:
        with session.begin_nested():
            session.add(row := OwnerSettingsRow(owner=owner, history=True, retention_days=RETENTION_DAYS))
        return row
    except IntegrityError:  # another transaction has just created it
        return session.scalars(query).one()
