"""Voices: queries and changes within the caller's session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from sqlalchemy import ColumnElement, Select, delete, exists, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased, defer

from engine.codes import codes_from_bytes, codes_to_bytes
from engine.errors import InvalidCodes
from engine.voice import MAX_DESCRIPTION, MAX_LANGUAGE, Consent, Reference, Voice, check_field, clean_name, clean_tags
from storage.errors import NameTaken, VoiceChanged, VoiceNotFound, VoiceProtected
from storage.models import SHARED, CodesRow, ReferenceRow, VoiceRow
from storage.object_store import StoredSound, read_sound
from storage.repositories import stored_objects
from storage.repositories.folding import fold_case, fold_for_search
from storage.repositories.voices import portraits
from storage.validation import is_id, new_id


@dataclass(frozen=True)
class VoiceRecord:
    """A stored voice without its clips and codes."""

    id: str
    owner: str
    name: str
    language: str
    description: str
    consent: Consent | None
    created: datetime  # aware, UTC
    updated: datetime  # aware, UTC; of name, language, description, tags, consent or clips
    duration: float  # seconds, all references
    references: int  # their number
    has_clips: bool  # whether the clips of all of them are stored
    codec_fingerprint: str  # of its original codec
    demo: str  # a sentence that suits the voice, or ""
    tags: tuple[str, ...] = ()  # as `clean_tags` returns them
    trashed: datetime | None = None  # aware, UTC; when it was moved to the trash

    @property
    def shared(self) -> bool:
        """Whether it is a shared voice, which all owners can use and none can change."""
        return self.owner == SHARED


def create(
    *,
    session: Session,
    voice: Voice,
    owner: str,
    voice_id: str | None = None,
    demo: str = "",
    clips: Sequence[StoredSound] | None = None,
) -> VoiceRecord:
    """Store a new voice, with a new id unless one is given. Raises NameTaken.

    clips: of its references, as stored; None: in the database.
    """
    now = datetime.now(UTC)
    row = VoiceRow(
        id=voice_id or new_id(),
        owner=owner,
        created=now,
        codec_fingerprint=voice.codec_fingerprint,
        demo=demo,
    )
    _describe(row, voice.name, voice.language, voice.description, voice.consent, voice.tags)
    row.updated = now
    session.add(row)
    _flush_name(session, row.name)
    clips = clips or [StoredSound(reference.clip) for reference in voice.references]
    _add_references(session=session, voice_id=row.id, voice=voice, clips=clips)
    portraits.put(session=session, voice_id=row.id, picture=voice.portrait)
    return record(session=session, voice_id=row.id, owner=owner)


def replace_references(
    *, session: Session, before: VoiceRecord, voice: Voice, owner: str, clips: Sequence[StoredSound]
) -> VoiceRecord:
    """Replace a voice's references, codes, name, language and consent; its id, description, tags and picture stay.

    before: the voice as it was read. clips: as for `create`.
    Raises VoiceNotFound, VoiceProtected, NameTaken, and VoiceChanged if it was changed since.
    """
    row = lock_row(session=session, voice_id=before.id, owner=owner)
    refuse_shared(row)
    if row.updated != before.updated:
        raise VoiceChanged("voices.changed_elsewhere", name=row.name)
    _describe(row, voice.name, voice.language, row.description, voice.consent, _tags(row))
    row.codec_fingerprint, row.updated = voice.codec_fingerprint, datetime.now(UTC)
    _flush_name(session, row.name)
    session.execute(delete(ReferenceRow).where(ReferenceRow.voice_id == row.id))  # with their codes
    _add_references(session=session, voice_id=row.id, voice=voice, clips=clips)
    return record(session=session, voice_id=row.id, owner=owner)


def _add_references(*, session: Session, voice_id: str, voice: Voice, clips: Sequence[StoredSound]) -> None:
    # Flushed table by table for the foreign keys: the models have no relationships.
    session.add_all(
        ReferenceRow(
            voice_id=voice_id,
            position=position,
            transcript=reference.transcript,
            duration=reference.duration,
            sample_rate=reference.sample_rate,
            clip=clip.data,
            object=clip.object,
        )
        for position, (reference, clip) in enumerate(zip(voice.references, clips, strict=True))
    )
    stored_objects.keep(session=session, sounds=clips)
    session.flush()
    add_codes(session=session, voice_id=voice_id, voice=voice)


def add_codes(*, session: Session, voice_id: str, voice: Voice) -> None:
    """Store the voice's codes beside those of other codecs."""
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
    """Return the owner's voices by name, then the shared ones.

    search: only voices with every word in name, description, tags or language.
    """
    words = set(fold_for_search(search).split())
    holding = [VoiceRow.search_key.contains(word, autoescape=True) for word in words]
    # Sorted here, so that the order is the same in every database.
    found = find_where(session, _visible_to(owner), *holding)
    return sorted(found, key=lambda record: (record.shared, fold_case(record.name)))


def find_where(session: Session, *which: ColumnElement[bool]) -> list[VoiceRecord]:
    """Return the voices that meet these conditions, unordered, including those in the trash."""
    return [_record(*each) for each in session.execute(_with_totals().where(*which))]


def record(*, session: Session, voice_id: str, owner: str) -> VoiceRecord:
    """Return one voice. Raises VoiceNotFound, also for the voice of another owner."""
    found = find_where(session, VoiceRow.id == _checked(voice_id), _visible_to(owner))
    if not found:
        raise VoiceNotFound("voices.gone")
    return found[0]


def record_by_name(*, session: Session, name: str, owner: str) -> VoiceRecord:
    """Return a voice by its clean name, regardless of case: the owner's, else the shared one.

    Raises VoiceNotFound.
    """
    found = find_where(session, _visible_to(owner), VoiceRow.name_key == fold_case(name))
    if not found:
        raise VoiceNotFound("voices.not_called", name=name)
    return min(found, key=lambda record: record.shared)


def has_codes(*, session: Session, voice_id: str, codec_fingerprint: str) -> bool:
    """Whether the voice has codes of this codec."""
    query = select(CodesRow.position).where(
        CodesRow.voice_id == voice_id, CodesRow.codec_fingerprint == codec_fingerprint
    )
    return session.scalars(query).first() is not None


def load(*, session: Session, record: VoiceRecord, codec_fingerprint: str, clips: bool = True) -> Voice:
    """Load a voice with codes of this codec. Raises InvalidCodes if they are damaged or missing.

    clips: whether with its clips, which may be in a store.
    """
    query = (
        select(ReferenceRow, CodesRow.codes)
        .join(
            CodesRow,
            (CodesRow.voice_id == ReferenceRow.voice_id) & (CodesRow.position == ReferenceRow.position),
        )
        .where(ReferenceRow.voice_id == record.id, CodesRow.codec_fingerprint == codec_fingerprint)
        .order_by(ReferenceRow.position)
    )
    if not clips:
        query = query.options(defer(ReferenceRow.clip))
    references = tuple(
        Reference(
            row.transcript,
            codes_from_bytes(codes),
            read_sound(session.info, row.clip, row.object) if clips else b"",
            row.sample_rate,
            row.duration,
        )
        for row, codes in session.execute(query)
    )
    if len(references) != record.references:
        raise InvalidCodes("codes.missing", name=record.name)
    about = (record.language, record.description, record.consent, record.tags)
    return Voice(record.name, references, codec_fingerprint, *about)


def lock_row(*, session: Session, voice_id: str, owner: str) -> VoiceRow:
    """Lock and return the voice's row until the transaction ends. Raises VoiceNotFound."""
    # PostgreSQL locks the row; SQLite locks the database when a writing transaction begins.
    query = select(VoiceRow).where(VoiceRow.id == _checked(voice_id), _visible_to(owner))
    row = session.scalar(query.with_for_update())
    if row is None:
        raise VoiceNotFound("voices.gone")
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
    """Change fields that are not None. Raises VoiceNotFound, VoiceProtected, NameTaken, InvalidName, InvalidInput."""
    row = lock_row(session=session, voice_id=voice_id, owner=owner)
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
    """Delete a voice with its references and codes. Raises VoiceNotFound, VoiceProtected."""
    row = lock_row(session=session, voice_id=voice_id, owner=owner)
    refuse_shared(row)
    session.delete(row)


def remove_all(*, session: Session, owner: str) -> None:
    """Delete all voices of an owner, including the trash."""
    session.execute(delete(VoiceRow).where(VoiceRow.owner == owner))


def refuse_shared(voice: VoiceRow | VoiceRecord) -> None:
    """Raise VoiceProtected for a shared voice."""
    if voice.owner == SHARED:
        raise VoiceProtected("voices.protected", name=voice.name)


def _visible_to(owner: str) -> ColumnElement[bool]:
    """Return the condition for the owner's voices and the shared ones, without the trash."""
    return VoiceRow.owner.in_((owner, SHARED)) & VoiceRow.trashed.is_(None)


def _checked(voice_id: str) -> str:
    if not is_id(voice_id):
        raise VoiceNotFound("voices.gone")
    return voice_id


def _describe(
    row: VoiceRow, name: str, language: str, description: str, consent: Consent | None, tags: Sequence[str]
) -> None:
    check_field(language, "language", MAX_LANGUAGE)
    check_field(description, "description", MAX_DESCRIPTION)
    row.name, row.language, row.description, row.tags = name, language, description, "\n".join(tags)
    row.name_key, row.search_key = fold_case(name), fold_for_search("\n".join([name, description, *tags, language]))
    row.consent_who = consent.who if consent else None
    row.consent_when = consent.when if consent else None
    row.consent_sentence = consent.sentence if consent else None


def _flush_name(session: Session, name: str) -> None:
    """Write a voice's row. The only constraint it can violate is the unique name."""
    try:
        session.flush()
    except IntegrityError as error:
        raise NameTaken("voices.name_taken", name=name) from error


@cache  # building it takes longer than adding conditions
def _with_totals() -> Select[VoiceRow, float, int, bool]:
    """Query voices with the seconds and the number of their references, and whether the clips of all are stored.

    No clip is read: sorting groups would copy a column that a total is taken of, and in SQLite a column after a clip
    is at the end of the clip's pages.
    """
    each = aliased(ReferenceRow)
    lacks_clip = exists().where(each.voice_id == VoiceRow.id, func.length(each.clip) == 0, each.object.is_(None))
    return (
        select(VoiceRow, func.sum(ReferenceRow.duration), func.count(), ~lacks_clip)
        .join(ReferenceRow, ReferenceRow.voice_id == VoiceRow.id)
        .group_by(VoiceRow.id)
    )


def _record(row: VoiceRow, duration: float, count: int, has_clips: bool) -> VoiceRecord:
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
        has_clips=has_clips,
        codec_fingerprint=row.codec_fingerprint,
        demo=row.demo,
        tags=_tags(row),
        trashed=row.trashed,
    )


def _tags(row: VoiceRow) -> tuple[str, ...]:
    return tuple(filter(None, row.tags.split("\n")))


def _consent(row: VoiceRow) -> Consent | None:
    if row.consent_who is None or row.consent_when is None or row.consent_sentence is None:
        return None
    return Consent(row.consent_who, row.consent_when, row.consent_sentence)
