"""Tags of voices, and voices whose deletion can be undone. Comes after 0004."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("voices", sa.Column("tags", sa.Text(), server_default="", nullable=False))
    op.add_column("voices", sa.Column("set_aside", sa.DateTime(timezone=True), nullable=True))
    # From now on searches cover the language as well.
    op.execute("UPDATE voices SET search_key = search_key || '\n' || lower(language)")
