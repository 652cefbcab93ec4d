"""Pictures of voices: queries and changes within the caller's session."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from storage.models import PortraitRow, VoiceRow


def of_owner(*, session: Session, owner: str, voice_ids: Sequence[str] | None = None) -> dict[str, bytes]:
    """Return the pictures of an owner's voices by the voices' ids, without the trash. voice_ids: None for all."""
    query = select(PortraitRow.voice_id, PortraitRow.picture).join(VoiceRow, VoiceRow.id == PortraitRow.voice_id)
    query = query.where(VoiceRow.owner == owner, VoiceRow.trashed.is_(None))
    if voice_ids is not None:
        query = query.where(PortraitRow.voice_id.in_(voice_ids))
    return {row.voice_id: row.picture for row in session.execute(query)}


def of_voice(*, session: Session, voice_id: str) -> bytes:
    """Return a voice's picture; empty if it has none."""
    return session.scalar(select(PortraitRow.picture).where(PortraitRow.voice_id == voice_id)) or b""


def put(*, session: Session, voice_id: str, picture: bytes) -> None:
    """Replace a voice's picture; an empty one removes it."""
    session.execute(delete(PortraitRow).where(PortraitRow.voice_id == voice_id))
    if picture:
        session.add(PortraitRow(voice_id=voice_id, picture=picture))
    session.flush()
