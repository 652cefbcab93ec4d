"""Demo sentences of voices. Comes after 0001."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("voices", sa.Column("demo", sa.Text(), server_default="", nullable=False))
