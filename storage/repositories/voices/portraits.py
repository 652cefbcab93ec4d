"""Pictures of voices: queries and changes within the caller's session."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from storage.models import PortraitRow, VoiceRow


def of_owner(*, session: Session, owner: str) -> dict[str, bytes]:
    """Return the pictures of an owner's voices by the voices' ids, without the trash."""
    query = select(PortraitRow.voice_id, PortraitRow.picture).join(VoiceRow, VoiceRow.id == PortraitRow.voice_id)
    found = session.execute(query.where(VoiceRow.owner == owner, VoiceRow.trashed.is_(None)))
    return {row.voice_id: row.picture for row in found}


def of_voice(*, session: Session, voice_id: str) -> bytes:
    """Return a voice's picture; empty if it has none."""
    return session.scalar(select(PortraitRow.picture).where(PortraitRow.voice_id == voice_id)) or b""


def put(*, session: Session, voice_id: str, picture: bytes) -> None:
    """Replace a voice's picture; an empty one removes it."""
    session.execute(delete(PortraitRow).where(PortraitRow.voice_id == voice_id))
    if picture:
        session.add(PortraitRow(voice_id=voice_id, picture=picture))
    session.flush()
