"""Favourite voices and pronunciations. Comes after 0009."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "favourites",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["voice_id"], ["voices.id"], name=op.f("fk_favourites_voices"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("owner", "voice_id", name=op.f("pk_favourites")),
    )
    op.create_index(op.f("ix_favourites_voice_id"), "favourites", ["voice_id"])
    op.create_table(
        "pronunciations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("word", sa.String(length=80), nullable=False),
        sa.Column("spoken", sa.String(length=200), nullable=False),
        sa.Column("match_case", sa.Boolean(), nullable=False),
        sa.Column("language", sa.String(length=35), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pronunciations")),
    )
    op.create_index(op.f("ix_pronunciations_owner"), "pronunciations", ["owner"])
