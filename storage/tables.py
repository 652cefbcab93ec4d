"""The tables, as SQLAlchemy 2 typed models. Rows stay inside `storage`; others see `Voice` and `VoiceRecord`.

voices             one row a voice: whose, what it is called, consent, and which codec it was made with
voice_references   its clips with their transcripts, in order
reference_codes    the codes of a reference, once for each codec that ever had to speak in that voice
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, in UTC. SQLite keeps no time zone, so it is taken off and put back on."""

    impl = DateTime(timezone=True)
    cache_ok = True

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
    name_key: Mapped[str] = mapped_column(Text)  # folded: the same for all names that count as one
    search_key: Mapped[str] = mapped_column(Text)  # name and description, folded further: without accents
    language: Mapped[str] = mapped_column(String(35))
    description: Mapped[str] = mapped_column(Text)
    consent_who: Mapped[str | None] = mapped_column(Text)
    consent_when: Mapped[datetime | None] = mapped_column(UtcDateTime)
    consent_sentence: Mapped[str | None] = mapped_column(Text)
    codec_fingerprint: Mapped[str] = mapped_column(String(128))  # of the codec the voice was made with
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)


class ReferenceRow(Base):
    """One of a voice's clips, with its transcript; never changed once stored."""

    __tablename__ = "voice_references"
    __table_args__ = (CheckConstraint("duration > 0", "duration_positive"),)

    voice_id: Mapped[str] = mapped_column(ForeignKey(VoiceRow.id, ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 0-based
    transcript: Mapped[str] = mapped_column(Text)
    duration: Mapped[float] = mapped_column(Double)  # seconds
    sample_rate: Mapped[int]  # Hz
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
