"""The tables of voices. Comes after an empty database."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "voices",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("search_key", sa.Text(), nullable=False),
        sa.Column("language", sa.String(length=35), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("consent_who", sa.Text(), nullable=True),
        sa.Column("consent_when", sa.DateTime(timezone=True), nullable=True),
        sa.Column("consent_sentence", sa.Text(), nullable=True),
        sa.Column("codec_fingerprint", sa.String(length=128), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "(consent_who IS NULL) = (consent_when IS NULL) AND (consent_who IS NULL) = (consent_sentence IS NULL)",
            name=op.f("ck_voices_consent_whole"),
        ),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 80", name=op.f("ck_voices_name_length")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_voices")),
        sa.UniqueConstraint("owner", "name_key", name=op.f("uq_voices_owner_name_key")),
    )
    op.create_table(
        "voice_references",
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("transcript", sa.Text(), nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.Column("sample_rate", sa.Integer(), nullable=False),
        sa.Column("clip", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("duration > 0", name=op.f("ck_voice_references_duration_positive")),
        sa.ForeignKeyConstraint(
            ["voice_id"], ["voices.id"], name=op.f("fk_voice_references_voices"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("voice_id", "position", name=op.f("pk_voice_references")),
    )
    op.create_table(
        "reference_codes",
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("codec_fingerprint", sa.String(length=128), nullable=False),
        sa.Column("codes", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["voice_id", "position"],
            ["voice_references.voice_id", "voice_references.position"],
            name=op.f("fk_reference_codes_voice_references"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("voice_id", "position", "codec_fingerprint", name=op.f("pk_reference_codes")),
    )
