"""The tables as SQLAlchemy 2 typed models. Rows stay within `storage`; its public types are `Voice` and records.

voices             owner, name, consent and original codec of each voice
voice_portraits    the pictures of voices that have one
voice_references   the clips of a voice with their transcripts, in order
reference_codes    the codes of a reference, for each codec that was used with the voice
generations        takes, by the table's first name: spoken texts with voice and settings; they outlive the voice
generation_audio   the sound of a take, separate so that lists do not read it
scripts            long texts, each a sequence of cards
script_covers      the pictures for the audio books of scripts that have one
script_cards       the cards of a script, in order
script_runs        runs of processes that are speaking a script
card_claims        the cards that these runs are speaking
card_takes         which takes belong to a card, and which of them is chosen
take_hearings      recogniser transcripts of takes of cards
favourites         the voices that an owner has marked
favourite_speakers the same for models' built-in voices
pronunciations     an owner's pronunciation dictionary
voice_uses         how often and how long an owner used a voice, including deleted takes
owner_settings     whether and how long an owner's history is kept; no row: the defaults
owner_deletions    the last deletion of all data of an owner, for what was in progress
api_keys           API keys: hashes, owners, limits
voice_consents     recorded consents of speakers, by owner
consent_recordings the sound of a consent, separate so that lists do not read it
stored_objects     sounds in a store outside the database (storage/object_store.py)
server_secrets     signing keys of the server (storage/repositories/secrets.py)
server_settings    settings of the server that are changed on its page, and the last expiry of takes
erasures           the numbers of requested and finished erasures of deleted data in the file

A SQLite row starts in a B-tree page of its table, with at most a page of data, and continues in its own overflow pages.
`lead`, a page of zeros before texts and sound, moves these into overflow pages, so that moving rows between B-tree
pages leaves no copy of them behind (storage/sqlite/erasure.py). Hence the order of columns matters. PostgreSQL stores
large values separately anyway.
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
    false,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from storage.database_errors import damaged

LEAD_BYTES = 4096  # a page of SQLite
SHARED = ""  # the owner of the shared voices; not a valid owner otherwise


class _SqliteDateTime(sqlite.DATETIME):
    """A time, which SQLite stores as text. Raises DatabaseUnavailable for text that is not a time."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[object], datetime | None]:
        process = super().result_processor(dialect, coltype)
        assert process is not None, "the dialect converts texts"

        def checked(value: object) -> datetime | None:
            try:
                time: datetime | None = process(value)
                return time
            except (TypeError, ValueError) as error:
                raise damaged("text that is not a time") from error

        return checked


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime in UTC. SQLite stores no time zone: it is removed and added again."""

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
    """Base of all tables. Constraints have names, so that migrations can refer to them."""

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
    """A voice: its owner, name, consent and original codec."""

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
    name: Mapped[str] = mapped_column(String(80))  # as clean_name returns it
    name_key: Mapped[str] = mapped_column(Text)  # folded: equal for names that count as one; unique in the trash
    search_key: Mapped[str] = mapped_column(Text)  # name, description, tags, language; folded, without accents
    language: Mapped[str] = mapped_column(String(35))
    description: Mapped[str] = mapped_column(Text)
    consent_who: Mapped[str | None] = mapped_column(Text)
    consent_when: Mapped[datetime | None] = mapped_column(UtcDateTime)
    consent_sentence: Mapped[str | None] = mapped_column(Text)
    codec_fingerprint: Mapped[str] = mapped_column(String(128))  # of its original codec
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)
    demo: Mapped[str] = mapped_column(Text, server_default="")  # a sentence that suits the voice, or empty
    tags: Mapped[str] = mapped_column(Text, server_default="")  # as clean_tags returns them, one per line
    trashed: Mapped[datetime | None] = mapped_column("set_aside", UtcDateTime)  # when it was moved to the trash


def _lead() -> Mapped[bytes]:
    """Return the column of a page of zeros, never read; see the docstring of this module."""
    return mapped_column(LargeBinary, default=bytes(LEAD_BYTES), deferred=True)


def _object() -> Mapped[str | None]:
    """Return the column of the name of the object with the sound; the column of bytes is then empty."""
    return mapped_column(String(32))


class PortraitRow(Base):
    """The picture of a voice."""

    __tablename__ = "voice_portraits"

    voice_id: Mapped[str] = mapped_column(ForeignKey(VoiceRow.id, ondelete="CASCADE"), primary_key=True)
    lead: Mapped[bytes] = _lead()
    picture: Mapped[bytes] = mapped_column(LargeBinary)  # WebP


class ReferenceRow(Base):
    """A clip of a voice with its transcript; immutable."""

    __tablename__ = "voice_references"
    __table_args__ = (Index(None, "object"), CheckConstraint("duration > 0", "duration_positive"))

    voice_id: Mapped[str] = mapped_column(ForeignKey(VoiceRow.id, ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 0-based
    duration: Mapped[float] = mapped_column(Double)  # seconds
    sample_rate: Mapped[int]  # Hz
    lead: Mapped[bytes] = _lead()
    transcript: Mapped[str] = mapped_column(Text)
    clip: Mapped[bytes] = mapped_column(LargeBinary)  # FLAC, mono; empty when unknown
    object: Mapped[str | None] = _object()


class CodesRow(Base):
    """The codes of a reference by one codec."""

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


class TakeRow(Base):
    """A take without its sound."""

    __tablename__ = "generations"
    __table_args__ = (Index(None, "owner", "created", "id"), CheckConstraint("duration > 0", "duration_positive"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    listed: Mapped[bool]  # in the history; False: only a take of a script
    starred: Mapped[bool]
    text: Mapped[str] = mapped_column(Text)
    search_key: Mapped[str] = mapped_column(Text)  # text and voice name, folded as for voices
    voice_id: Mapped[str | None] = mapped_column(String(32))  # no foreign key: the voice may be deleted
    voice_name: Mapped[str] = mapped_column(String(80))  # at that time
    seed: Mapped[int]
    settings: Mapped[str] = mapped_column(Text)  # a JSON object
    model: Mapped[str] = mapped_column(String(200))
    duration: Mapped[float] = mapped_column(Double)  # seconds
    real_time_factor: Mapped[float | None] = mapped_column(Double)
    first_audio: Mapped[float | None] = mapped_column(Double)  # seconds
    stop_reason: Mapped[str] = mapped_column(String(20))
    size: Mapped[int]  # of the sound, bytes
    words: Mapped[str | None] = mapped_column(Text)  # a JSON list of times, if the model reported them


class TakeAudioRow(Base):
    """The sound of a take; immutable."""

    __tablename__ = "generation_audio"
    __table_args__ = (Index(None, "object"),)

    take_id: Mapped[str] = mapped_column("generation_id", ForeignKey(TakeRow.id, ondelete="CASCADE"), primary_key=True)
    lead: Mapped[bytes] = _lead()
    audio: Mapped[bytes] = mapped_column(LargeBinary)  # FLAC
    object: Mapped[str | None] = _object()


class ScriptRow(Base):
    """A script; its cards refer to it."""

    __tablename__ = "scripts"
    __table_args__ = (Index(None, "owner"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    name: Mapped[str] = mapped_column(String(120))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)  # of the name or any card
    paragraph_pause: Mapped[float] = mapped_column(Double, server_default="0.6")  # seconds after each paragraph
    author: Mapped[str] = mapped_column(String(200), server_default="")  # of the text, or empty


class CoverRow(Base):
    """The picture for the audio book of a script."""

    __tablename__ = "script_covers"

    script_id: Mapped[str] = mapped_column(ForeignKey(ScriptRow.id, ondelete="CASCADE"), primary_key=True)
    mark: Mapped[str] = mapped_column(String(32))  # differs for each picture
    lead: Mapped[bytes] = _lead()
    picture: Mapped[bytes] = mapped_column(LargeBinary)  # JPEG


class CardRow(Base):
    """A card: a part of a script that is spoken separately."""

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
    voice_id: Mapped[str | None] = mapped_column(String(32))  # no foreign key: a deleted voice must be visible
    pause: Mapped[float] = mapped_column(Double)  # seconds of silence after it
    ends_paragraph: Mapped[bool] = mapped_column(server_default=false())  # its pause is the script's
    speed: Mapped[float] = mapped_column(Double, server_default="1")
    chapter: Mapped[str | None] = mapped_column(String(200))  # the title of the chapter that begins with it
    locked: Mapped[bool]
    status: Mapped[str] = mapped_column(String(10))
    failure: Mapped[str | None] = mapped_column(Text)  # for the author: `UserMessage.to_json`


class ScriptRunRow(Base):
    """A run of a process that is speaking a script. It lapses unless the process renews it."""

    __tablename__ = "script_runs"
    __table_args__ = (Index(None, "script_id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    script_id: Mapped[str] = mapped_column(ForeignKey(ScriptRow.id, ondelete="CASCADE"))
    until: Mapped[datetime] = mapped_column(UtcDateTime)


class CardClaimRow(Base):
    """The run that is speaking a card; no other may."""

    __tablename__ = "card_claims"
    __table_args__ = (Index(None, "run_id"),)

    card_id: Mapped[str] = mapped_column(ForeignKey(CardRow.id, ondelete="CASCADE"), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey(ScriptRunRow.id, ondelete="CASCADE"))


class CardTakeRow(Base):
    """A take that belongs to a card."""

    __tablename__ = "card_takes"
    __table_args__ = (
        Index(None, "card_id"),
        # At most one take of a card is chosen.
        Index(
            "uq_card_takes_chosen", "card_id", unique=True, sqlite_where=text("chosen"), postgresql_where=text("chosen")
        ),
    )

    take_id: Mapped[str] = mapped_column("generation_id", ForeignKey(TakeRow.id, ondelete="CASCADE"), primary_key=True)
    card_id: Mapped[str] = mapped_column(ForeignKey(CardRow.id, ondelete="CASCADE"))
    chosen: Mapped[bool]


class TakeHearingRow(Base):
    """A recogniser's transcript of a take of a card."""

    __tablename__ = "take_hearings"
    __table_args__ = (CheckConstraint("word_error >= 0", "word_error_positive"),)

    take_id: Mapped[str] = mapped_column(
        "generation_id", ForeignKey(CardTakeRow.take_id, ondelete="CASCADE"), primary_key=True
    )
    heard: Mapped[str] = mapped_column(Text)
    word_error: Mapped[float] = mapped_column(Double)  # differing words per word of the text
    marks: Mapped[str] = mapped_column(Text)  # a JSON list of character ranges [from, to) of the text
    recogniser: Mapped[str] = mapped_column(String(200))


class VoiceUseRow(Base):
    """How much an owner used a voice."""

    __tablename__ = "voice_uses"

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    voice_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    times: Mapped[int]
    seconds: Mapped[float] = mapped_column(Double)


class OwnerSettingsRow(Base):
    """Whether and how long an owner's history is kept."""

    __tablename__ = "owner_settings"
    __table_args__ = (CheckConstraint("retention_days > 0", "retention_positive"),)

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    history: Mapped[bool]
    retention_days: Mapped[int]


class OwnerDeletionRow(Base):
    """The last deletion of all data of an owner, who is not named. It is deleted when it is a few days old."""

    __tablename__ = "owner_deletions"

    owner_digest: Mapped[str] = mapped_column(String(64), primary_key=True)  # SHA-256
    mark: Mapped[str] = mapped_column(String(32))  # differs for each deletion
    created: Mapped[datetime] = mapped_column(UtcDateTime)


class ApiKeyRow(Base):
    """An API key: its hash, the owner whose voices it can use, and its limits."""

    __tablename__ = "api_keys"
    __table_args__ = (
        UniqueConstraint("digest"),
        UniqueConstraint("name"),
        Index(None, "owner"),
        CheckConstraint("(rate IS NULL) = (rate_seconds IS NULL)", "rate_whole"),
        CheckConstraint("(quota IS NULL) = (quota_seconds IS NULL)", "quota_whole"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))  # SHA-256 of the key
    hint: Mapped[str] = mapped_column(String(12))  # the key's first characters
    name: Mapped[str] = mapped_column(String(80))
    owner: Mapped[str] = mapped_column(String(200))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    expires: Mapped[datetime | None] = mapped_column(UtcDateTime)
    rate: Mapped[int | None]  # requests in `rate_seconds`
    rate_seconds: Mapped[int | None]
    quota: Mapped[int | None]  # characters in `quota_seconds`
    quota_seconds: Mapped[int | None]
    used: Mapped[int]  # characters in `period`
    period: Mapped[int]  # number of the quota's period since 1970
    voices: Mapped[str] = mapped_column(Text)  # a JSON object: ids of saved voices or names of others, by alias


class VoiceConsentRow(Base):
    """A recorded consent without its recording."""

    __tablename__ = "voice_consents"
    __table_args__ = (Index(None, "owner"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    name: Mapped[str] = mapped_column(String(80))  # a label, as clean_name returns it
    language: Mapped[str] = mapped_column(String(35))


class ConsentRecordingRow(Base):
    """The recording of a consent; immutable."""

    __tablename__ = "consent_recordings"
    __table_args__ = (Index(None, "object"),)

    consent_id: Mapped[str] = mapped_column(ForeignKey(VoiceConsentRow.id, ondelete="CASCADE"), primary_key=True)
    lead: Mapped[bytes] = _lead()
    recording: Mapped[bytes] = mapped_column(LargeBinary)  # as it was uploaded
    object: Mapped[str | None] = _object()


class StoredObjectRow(Base):
    """An object in the store of sounds. The row is deleted after the object."""

    __tablename__ = "stored_objects"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    size: Mapped[int]  # bytes
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    kept: Mapped[bool]  # False while it is being written; then a row refers to it, or it is to be deleted


class FavouriteRow(Base):
    """A voice that an owner has marked."""

    __tablename__ = "favourites"

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    voice_id: Mapped[str] = mapped_column(ForeignKey("voices.id", ondelete="CASCADE"), primary_key=True, index=True)


class FavouriteSpeakerRow(Base):
    """A model's built-in voice that an owner has marked."""

    __tablename__ = "favourite_speakers"

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    voice_id: Mapped[str] = mapped_column(String(32), primary_key=True)  # the id of a BuiltInVoice


class PronunciationRow(Base):
    """An owner's pronunciation of a word."""

    __tablename__ = "pronunciations"
    __table_args__ = (Index(None, "owner", "word", "language", unique=True),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    word: Mapped[str] = mapped_column(String(80))
    spoken: Mapped[str] = mapped_column(String(200))
    match_case: Mapped[bool]
    language: Mapped[str] = mapped_column(String(35))  # of voices; "" for all


class ServerSettingRow(Base):
    """A setting of the server that is changed on its page, or the time of the last expiry of takes."""

    __tablename__ = "server_settings"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class ErasureRow(Base):
    """The only row: counts of requested and finished erasures of deleted or replaced data. Unused in PostgreSQL.

    free_pages: whether free pages contain deleted data, too.
    """

    __tablename__ = "erasures"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    requested: Mapped[int]
    finished: Mapped[int]
    free_pages: Mapped[bool]
