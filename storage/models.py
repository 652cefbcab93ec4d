"""The tables, as SQLAlchemy 2 typed models. Rows stay inside `storage`; others see `Voice` and records.

voices             one row a voice: whose, what it is called, consent, and which codec it was made with
voice_references   its clips with their transcripts, in order
reference_codes    the codes of a reference, once for each codec that ever had to speak in that voice
generations        what was spoken: the text, in which voice, how; voices may be deleted and this stays
generation_audio   its sound, apart, so that no list ever reads it
scripts            long texts, each a row of cards
script_cards       the cards, in order
card_takes         which generations are takes of which card, and which of them counts
voice_uses         how often and how long an owner spoke in a voice, also what is deleted by now
owner_settings     what an owner wants kept; no row: the defaults
server_secrets     what the server signs with (storage/repositories/secrets.py)
erasures           how often something was deleted or replaced, and how often it was overwritten in the file

A SQLite row starts in a page of the table's B-tree, at most a page of it, and goes on in overflow pages that are the
row's own. Where `lead` comes before texts and sound, a page of zeros, these are in overflow pages only: nothing that
moves rows between the pages of the B-tree leaves a copy of them behind (storage/sqlite/erasure.py). The order of
columns matters there; PostgreSQL keeps large values apart anyhow.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from storage.failures import damaged

LEAD_BYTES = 4096  # a page of SQLite
SHARED = ""  # the owner of the sample voices, which everyone sees; no person can have this name


class _SqliteDateTime(sqlite.DATETIME):
    """SQLite keeps times as texts; raises DatabaseUnavailable for one that is no time."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[object], datetime | None]:
        process = super().result_processor(dialect, coltype)
        assert process is not None, "a text has to be read"

        def checked(value: object) -> datetime | None:
            try:
                time: datetime | None = process(value)
                return time
            except (TypeError, ValueError) as error:
                raise damaged("a time that is none") from error

        return checked


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, in UTC. SQLite keeps no time zone, so it is taken off and put back on."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(_SqliteDateTime())  # type: ignore[no-untyped-call]
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """All tables; constraints are named, so that migrations can find them again."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class VoiceRow(Base):
    """A voice: whose, its name, consent, and the codec it was made with."""

    __tablename__ = "voices"
    __table_args__ = (
        UniqueConstraint("owner", "name_key"),
        CheckConstraint("length(name) BETWEEN 1 AND 80", "name_length"),
        CheckConstraint(
            "(consent_who IS NULL) = (consent_when IS NULL) AND (consent_who IS NULL) = (consent_sentence IS NULL)",
            "consent_whole",
        ),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)  # UUID, 32 hexadecimal digits
    owner: Mapped[str] = mapped_column(String(200))
    name: Mapped[str] = mapped_column(String(80))  # as clean_name gives it
    name_key: Mapped[str] = mapped_column(Text)  # folded: the same for all names that count as one; see `set_aside`
    search_key: Mapped[str] = mapped_column(Text)  # name, description, tags, language, folded further: without accents
    language: Mapped[str] = mapped_column(String(35))
    description: Mapped[str] = mapped_column(Text)
    consent_who: Mapped[str | None] = mapped_column(Text)
    consent_when: Mapped[datetime | None] = mapped_column(UtcDateTime)
    consent_sentence: Mapped[str | None] = mapped_column(Text)
    codec_fingerprint: Mapped[str] = mapped_column(String(128))  # of the codec the voice was made with
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)
    demo: Mapped[str] = mapped_column(Text, server_default="")  # a sentence that shows it well, or none
    tags: Mapped[str] = mapped_column(Text, server_default="")  # as clean_tags gives them, a line each
    set_aside: Mapped[datetime | None] = mapped_column(UtcDateTime)  # when it was deleted; undoable as yet


def _lead() -> Mapped[bytes]:
    """A page of zeros; see the top of this module. Never read."""
    return mapped_column(LargeBinary, default=bytes(LEAD_BYTES), deferred=True)


class ReferenceRow(Base):
    """One of a voice's clips, with its transcript; never changed once stored."""

    __tablename__ = "voice_references"
    __table_args__ = (CheckConstraint("duration > 0", "duration_positive"),)

    voice_id: Mapped[str] = mapped_column(ForeignKey(VoiceRow.id, ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 0-based
    duration: Mapped[float] = mapped_column(Double)  # seconds
    sample_rate: Mapped[int]  # Hz
    lead: Mapped[bytes] = _lead()
    transcript: Mapped[str] = mapped_column(Text)
    clip: Mapped[bytes] = mapped_column(LargeBinary)  # FLAC, mono; empty when unknown


class CodesRow(Base):
    """The codes that one codec made of one reference."""

    __tablename__ = "reference_codes"
    __table_args__ = (
        ForeignKeyConstraint(
            ["voice_id", "position"], [ReferenceRow.voice_id, ReferenceRow.position], ondelete="CASCADE"
        ),
    )

    voice_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    codec_fingerprint: Mapped[str] = mapped_column(String(128), primary_key=True)
    codes: Mapped[bytes] = mapped_column(LargeBinary)  # as codes_to_bytes writes them


class GenerationRow(Base):
    """Something that was spoken, all but its sound."""

    __tablename__ = "generations"
    __table_args__ = (Index(None, "owner", "created", "id"), CheckConstraint("duration > 0", "duration_positive"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    listed: Mapped[bool]  # in the history; False: only a script has it
    starred: Mapped[bool]
    text: Mapped[str] = mapped_column(Text)
    search_key: Mapped[str] = mapped_column(Text)  # text and voice, folded as those of voices are
    voice_id: Mapped[str | None] = mapped_column(String(32))  # no foreign key: the voice may go
    voice_name: Mapped[str] = mapped_column(String(80))  # as it was then
    seed: Mapped[int]
    settings: Mapped[str] = mapped_column(Text)  # a JSON object
    model: Mapped[str] = mapped_column(String(200))
    duration: Mapped[float] = mapped_column(Double)  # seconds
    real_time_factor: Mapped[float | None] = mapped_column(Double)
    first_audio: Mapped[float | None] = mapped_column(Double)  # seconds
    stop_reason: Mapped[str] = mapped_column(String(20))
    size: Mapped[int]  # of the sound, bytes


class AudioRow(Base):
    """The sound of a generation; never changed."""

    __tablename__ = "generation_audio"

    generation_id: Mapped[str] = mapped_column(ForeignKey(GenerationRow.id, ondelete="CASCADE"), primary_key=True)
    lead: Mapped[bytes] = _lead()
    audio: Mapped[bytes] = mapped_column(LargeBinary)  # FLAC


class ScriptRow(Base):
    """A long text; its cards know it."""

    __tablename__ = "scripts"
    __table_args__ = (Index(None, "owner"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    name: Mapped[str] = mapped_column(String(120))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)  # of the name or any card


class CardRow(Base):
    """A piece of a script that is spoken by itself."""

    __tablename__ = "script_cards"
    __table_args__ = (
        Index(None, "script_id", "position"),
        CheckConstraint("status IN ('idle', 'queued', 'failed')", "status_known"),
        CheckConstraint("(status = 'failed') = (failure IS NOT NULL)", "failure_told"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    script_id: Mapped[str] = mapped_column(ForeignKey(ScriptRow.id, ondelete="CASCADE"))
    position: Mapped[int]  # 0-based, without gaps
    text: Mapped[str] = mapped_column(Text)
    speaker: Mapped[str | None] = mapped_column(String(80))
    voice_id: Mapped[str | None] = mapped_column(String(32))  # no foreign key: that a voice is gone must show
    pause: Mapped[float] = mapped_column(Double)  # seconds of silence after it
    locked: Mapped[bool]
    status: Mapped[str] = mapped_column(String(10))
    failure: Mapped[str | None] = mapped_column(Text)  # a sentence for the author
    seed: Mapped[int | None]
    settings: Mapped[str] = mapped_column(Text)  # a JSON object


class TakeRow(Base):
    """That a generation is a take of a card."""

    __tablename__ = "card_takes"
    __table_args__ = (
        Index(None, "card_id"),
        # Of a card's takes at most one counts.
        Index(
            "uq_card_takes_chosen", "card_id", unique=True, sqlite_where=text("chosen"), postgresql_where=text("chosen")
        ),
    )

    generation_id: Mapped[str] = mapped_column(ForeignKey(GenerationRow.id, ondelete="CASCADE"), primary_key=True)
    card_id: Mapped[str] = mapped_column(ForeignKey(CardRow.id, ondelete="CASCADE"))
    chosen: Mapped[bool]


class VoiceUseRow(Base):
    """How much an owner spoke in a voice."""

    __tablename__ = "voice_uses"

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    voice_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    times: Mapped[int]
    seconds: Mapped[float] = mapped_column(Double)


class OwnerSettingsRow(Base):
    """What an owner wants kept."""

    __tablename__ = "owner_settings"
    __table_args__ = (CheckConstraint("retention_days > 0", "retention_positive"),)

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    history: Mapped[bool]
    retention_days: Mapped[int]


class ErasureRow(Base):
    """The one row that counts deletions and replacements, and those that are overwritten. In PostgreSQL unused.

    free_pages: free pages hold what was deleted, too.
    """

    __tablename__ = "erasures"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    requested: Mapped[int]
    finished: Mapped[int]
    free_pages: Mapped[bool]
