"""Deletions of all data of an owner, for takes that were being generated. Comes after 0016."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "owner_deletions",
        sa.Column("owner_digest", sa.String(length=64), nullable=False),
        sa.Column("mark", sa.String(length=32), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner_digest", name=op.f("pk_owner_deletions")),
    )
