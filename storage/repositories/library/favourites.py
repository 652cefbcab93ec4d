"""Favourite voices: queries and changes within the caller's session."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from storage.models import FavouriteRow


def ids(*, session: Session, owner: str) -> set[str]:
    """Return the ids of the voices that the owner has marked."""
    return set(session.scalars(select(FavouriteRow.voice_id).where(FavouriteRow.owner == owner)))


def mark(*, session: Session, voice_id: str, owner: str) -> None:
    """Mark a voice. Idempotent."""
    session.merge(FavouriteRow(owner=owner, voice_id=voice_id))
    session.flush()


def unmark(*, session: Session, voice_id: str, owner: str) -> None:
    """Remove a mark. Idempotent."""
    session.execute(delete(FavouriteRow).where(FavouriteRow.owner == owner, FavouriteRow.voice_id == voice_id))


def remove_all(*, session: Session, owner: str) -> None:
    """Remove the owner's marks."""
    session.execute(delete(FavouriteRow).where(FavouriteRow.owner == owner))
