"""Favourites among models' own voices. Comes after 0014."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "favourite_speakers",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("owner", "voice_id", name=op.f("pk_favourite_speakers")),
    )
