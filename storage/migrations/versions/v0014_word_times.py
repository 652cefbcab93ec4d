"""Word times of generations. Comes after 0013."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("generations", sa.Column("words", sa.Text(), nullable=True))
