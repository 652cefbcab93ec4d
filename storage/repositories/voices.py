"""Reading and writing voices within a session that the caller opened: rows inside, public types outside."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Select, delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from engine.errors import InvalidCodes, NameTaken, VoiceNotFound, VoiceProtected
from engine.voice import (
    MAX_DESCRIPTION,
    MAX_LANGUAGE,
    Consent,
    Reference,
    Voice,
    check_text,
    clean_name,
    clean_tags,
    codes_from_bytes,
    codes_to_bytes,
)
from storage.models import SHARED, CodesRow, ReferenceRow, VoiceRow

_ID = re.compile(r"[0-9a-f]{32}")
GONE = "There is no such voice; it may have been deleted."


@dataclass(frozen=True)
class VoiceRecord:
    """What a list shows of a stored voice: all but its clips and codes."""

    id: str
    owner: str
    name: str
    language: str
    description: str
    consent: Consent | None
    created: datetime  # aware, UTC
    updated: datetime  # aware, UTC; of name, language, description, tags or consent
    duration: float  # seconds, all references
    references: int  # how many
    codec_fingerprint: str  # of the codec the voice was made with
    demo: str  # a sentence that shows the voice well; "" where there is none
    tags: tuple[str, ...] = ()  # as `clean_tags` gives them
    set_aside: datetime | None = None  # aware, UTC; when it was deleted, where that can be undone

    @property
    def shared(self) -> bool:
        """Whether it is a sample voice: everyone sees it, nobody changes it."""
        return self.owner == SHARED


def fold(text: str) -> str:
    """The form in which texts are compared without case: Unicode's canonical caseless matching (D145)."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def search_fold(text: str) -> str:
    """As `fold`, without accents: who searches for "jose" finds "José", and the other way round."""
    return "".join(character for character in fold(text) if not unicodedata.combining(character))


def create(*, session: Session, voice: Voice, owner: str, voice_id: str | None = None, demo: str = "") -> VoiceRecord:
    """Store a new voice, under an id of its own unless one is given. Raises NameTaken."""
    now = datetime.now(UTC)
    row = VoiceRow(
        id=voice_id or uuid.uuid4().hex,
        owner=owner,
        created=now,
        codec_fingerprint=voice.codec_fingerprint,
        demo=demo,
    )
    _describe(row, voice.name, voice.language, voice.description, voice.consent, voice.tags)
    row.updated = now
    session.add(row)
    _flush_name(session, row.name)
    # Flushed table by table, as the foreign keys ask: the rows know nothing of each other.
    session.add_all(
        ReferenceRow(
            voice_id=row.id,
            position=position,
            transcript=reference.transcript,
            duration=reference.duration,
            sample_rate=reference.sample_rate,
            clip=reference.clip,
        )
        for position, reference in enumerate(voice.references)
    )
    session.flush()
    add_codes(session=session, voice_id=row.id, voice=voice)
    return record(session=session, voice_id=row.id, owner=owner)


def add_codes(*, session: Session, voice_id: str, voice: Voice) -> None:
    """Store the voice's codes beside those that other codecs made of the same references."""
    session.add_all(
        CodesRow(
            voice_id=voice_id,
            position=position,
            codec_fingerprint=voice.codec_fingerprint,
            codes=codes_to_bytes(reference.codes),
        )
        for position, reference in enumerate(voice.references)
    )
    session.flush()


def records(*, session: Session, owner: str, search: str = "") -> list[VoiceRecord]:
    """The voices whose name, description, tags and language hold every word of `search`, by name: the owner's, then
    the shared."""
    words = set(search_fold(search).split())
    holding = [VoiceRow.search_key.contains(word, autoescape=True) for word in words]
    # Sorted here: the order is the same in every database.
    found = found_where(session, _seen_by(owner), *holding)
    return sorted(found, key=lambda record: (record.shared, fold(record.name)))


def found_where(session: Session, *which: ColumnElement[bool]) -> list[VoiceRecord]:
    """Voices of these conditions, in no order; those set aside too, if the conditions do not rule them out."""
    return [_record(row, duration, count) for row, duration, count in session.execute(_with_totals().where(*which))]


def record(*, session: Session, voice_id: str, owner: str) -> VoiceRecord:
    """One voice. Raises VoiceNotFound, also for the voice of another owner."""
    found = found_where(session, VoiceRow.id == _checked(voice_id), _seen_by(owner))
    if not found:
        raise VoiceNotFound(GONE)
    return found[0]


def record_by_name(*, session: Session, name: str, owner: str) -> VoiceRecord:
    """One voice by its name, the owner's before the shared one; the name must be clean, its case does not matter.

    Raises VoiceNotFound.
    """
    found = found_where(session, _seen_by(owner), VoiceRow.name_key == fold(name))
    if not found:
        raise VoiceNotFound(f"There is no voice called “{name}”.")
    return min(found, key=lambda record: record.shared)


def has_codes(*, session: Session, voice_id: str, codec_fingerprint: str) -> bool:
    """Whether this codec has made codes for the voice."""
    query = select(CodesRow.position).where(
        CodesRow.voice_id == voice_id, CodesRow.codec_fingerprint == codec_fingerprint
    )
    return session.scalars(query).first() is not None


def load(*, session: Session, record: VoiceRecord, codec_fingerprint: str) -> Voice:
    """The whole voice with the codes that this codec made. Raises InvalidCodes if damaged or missing."""
    query = (
        select(ReferenceRow, CodesRow.codes)
        .join(
            CodesRow,
            (CodesRow.voice_id == ReferenceRow.voice_id) & (CodesRow.position == ReferenceRow.position),
        )
        .where(ReferenceRow.voice_id == record.id, CodesRow.codec_fingerprint == codec_fingerprint)
        .order_by(ReferenceRow.position)
    )
    references = tuple(
        Reference(row.transcript, codes_from_bytes(codes), row.clip, row.sample_rate, row.duration)
        for row, codes in session.execute(query)
    )
    if len(references) != record.references:
        raise InvalidCodes(f"Codes of the voice “{record.name}” are missing.")
    about = (record.language, record.description, record.consent, record.tags)
    return Voice(record.name, references, codec_fingerprint, *about)


def lock(*, session: Session, voice_id: str, owner: str) -> VoiceRow:
    """The voice's row, kept from other writers until the transaction ends. Raises VoiceNotFound."""
    # PostgreSQL locks the row; SQLite locked the database when the writing transaction began.
    query = select(VoiceRow).where(VoiceRow.id == _checked(voice_id), _seen_by(owner))
    row = session.scalar(query.with_for_update())
    if row is None:
        raise VoiceNotFound(GONE)
    return row


def update(
    *,
    session: Session,
    voice_id: str,
    owner: str,
    name: str | None = None,
    language: str | None = None,
    description: str | None = None,
    consent: Consent | None = None,
    tags: Sequence[str] | None = None,
) -> VoiceRecord:
    """Change what is not None. Raises VoiceNotFound, VoiceProtected, NameTaken, InvalidName, InvalidInput."""
    row = lock(session=session, voice_id=voice_id, owner=owner)
    refuse_shared(row)
    _describe(
        row,
        row.name if name is None else clean_name(name),
        row.language if language is None else language,
        row.description if description is None else description,
        consent or _consent(row),
        _tags(row) if tags is None else clean_tags(tags),
    )
    row.updated = datetime.now(UTC)
    _flush_name(session, row.name)
    return record(session=session, voice_id=voice_id, owner=owner)


def remove(*, session: Session, voice_id: str, owner: str) -> None:
    """Delete a voice with all that hangs on it. Raises VoiceNotFound, VoiceProtected."""
    row = lock(session=session, voice_id=voice_id, owner=owner)
    refuse_shared(row)
    session.delete(row)


def remove_all(*, session: Session, owner: str) -> int:
    """Delete all voices of an owner, those set aside too; returns how many there were."""
    return len(session.scalars(delete(VoiceRow).where(VoiceRow.owner == owner).returning(VoiceRow.id)).all())


def refuse_shared(voice: VoiceRow | VoiceRecord) -> None:
    """Raises VoiceProtected for a voice that everyone shares."""
    if voice.owner == SHARED:
        raise VoiceProtected(
            f"“{voice.name}” is a sample voice for everyone: it cannot be renamed, changed or deleted, "
            "but a copy of it is yours."
        )


def _seen_by(owner: str) -> ColumnElement[bool]:
    """The owner's voices and those that everyone shares, but for those set aside."""
    return VoiceRow.owner.in_((owner, SHARED)) & VoiceRow.set_aside.is_(None)


def _checked(voice_id: str) -> str:
    """An id that can be asked for: no database is bothered with what no library gave out."""
    if not _ID.fullmatch(voice_id):
        raise VoiceNotFound(GONE)
    return voice_id


def _describe(
    row: VoiceRow, name: str, language: str, description: str, consent: Consent | None, tags: Sequence[str]
) -> None:
    check_text(language, "language", MAX_LANGUAGE)
    check_text(description, "description", MAX_DESCRIPTION)
    row.name, row.language, row.description, row.tags = name, language, description, "\n".join(tags)
    row.name_key, row.search_key = fold(name), search_fold("\n".join([name, description, *tags, language]))
    row.consent_who = consent.who if consent else None
    row.consent_when = consent.when if consent else None
    row.consent_sentence = consent.sentence if consent else None


def _flush_name(session: Session, name: str) -> None:
    """Write a voice's row; the one rule it can break is that an owner's names differ."""
    try:
        session.flush()
    except IntegrityError as error:
        raise NameTaken(f"There is already a voice called “{name}”.") from error


def _with_totals() -> Select[VoiceRow, float, int]:
    """Voices, each with the seconds and the number of its references; clips and codes stay where they are."""
    return (
        select(VoiceRow, func.sum(ReferenceRow.duration), func.count())
        .join(ReferenceRow, ReferenceRow.voice_id == VoiceRow.id)
        .group_by(VoiceRow.id)
    )


def _record(row: VoiceRow, duration: float, count: int) -> VoiceRecord:
    return VoiceRecord(
        id=row.id,
        owner=row.owner,
        name=row.name,
        language=row.language,
        description=row.description,
        consent=_consent(row),
        created=row.created,
        updated=row.updated,
        duration=duration,
        references=count,
        codec_fingerprint=row.codec_fingerprint,
        demo=row.demo,
        tags=_tags(row),
        set_aside=row.set_aside,
    )


def _tags(row: VoiceRow) -> tuple[str, ...]:
    return tuple(filter(None, row.tags.split("\n")))


def _consent(row: VoiceRow) -> Consent | None:
    if row.consent_who is None or row.consent_when is None or row.consent_sentence is None:
        return None
    return Consent(row.consent_who, row.consent_when, row.consent_sentence)
