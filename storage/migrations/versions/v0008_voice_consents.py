"""Recorded consents to cloning. Comes after 0007."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "voice_consents",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("language", sa.String(length=35), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_voice_consents")),
    )
    op.create_index(op.f("ix_voice_consents_owner"), "voice_consents", ["owner"])
    op.create_table(
        "consent_recordings",
        sa.Column("consent_id", sa.String(length=32), nullable=False),
        sa.Column("lead", sa.LargeBinary(), nullable=False),
        sa.Column("recording", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["consent_id"], ["voice_consents.id"], name=op.f("fk_consent_recordings_voice_consents"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("consent_id", name=op.f("pk_consent_recordings")),
    )
