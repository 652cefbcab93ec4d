"""Sounds in a store outside the database. Comes after 0008."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stored_objects",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_stored_objects")),
    )
    for table in ("voice_references", "generation_audio", "consent_recordings"):
        op.add_column(table, sa.Column("object", sa.String(length=32), nullable=True))
        op.create_index(op.f(f"ix_{table}_object"), table, ["object"])
