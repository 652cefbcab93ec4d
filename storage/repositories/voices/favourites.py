"""Favourite voices: queries and changes within the caller's session. Models' built-in voices have a separate table."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from engine.voice import is_built_in_voice
from storage.errors import VoiceNotFound
from storage.models import FavouriteRow, FavouriteSpeakerRow
from storage.repositories.statements import put_row

_Row = type[FavouriteRow] | type[FavouriteSpeakerRow]
_TABLES: tuple[_Row, ...] = (FavouriteRow, FavouriteSpeakerRow)


def ids(*, session: Session, owner: str) -> set[str]:
    """Return the ids of the voices that the owner has marked."""
    return {found for row in _TABLES for found in session.scalars(select(row.voice_id).where(row.owner == owner))}


def add(*, session: Session, voice_id: str, owner: str) -> None:
    """Mark a voice as a favourite. Idempotent. Raises VoiceNotFound for a saved voice that is being deleted."""
    values = {"owner": owner, "voice_id": voice_id}
    try:
        put_row(session=session, table=_table(voice_id), key=list(values), values=values)
    except IntegrityError as error:  # the only constraint it can violate is the foreign key
        raise VoiceNotFound("voices.gone") from error


def remove(*, session: Session, voice_id: str, owner: str) -> None:
    """Remove a mark. Idempotent."""
    row = _table(voice_id)
    session.execute(delete(row).where(row.owner == owner, row.voice_id == voice_id))


def remove_all(*, session: Session, owner: str) -> None:
    """Remove the owner's marks."""
    for row in _TABLES:
        session.execute(delete(row).where(row.owner == owner))


def _table(voice_id: str) -> _Row:
    return FavouriteSpeakerRow if is_built_in_voice(voice_id) else FavouriteRow
