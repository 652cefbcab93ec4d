"""The pace, paragraphs and chapters of scripts. Comes after 0010."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("scripts", sa.Column("paragraph_pause", sa.Double(), server_default="0.6", nullable=False))
    op.add_column("script_cards", sa.Column("ends_paragraph", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("script_cards", sa.Column("speed", sa.Double(), server_default="1", nullable=False))
    op.add_column("script_cards", sa.Column("chapter", sa.String(length=200), nullable=True))
    # Until now, paragraphs ended with this pause.
    op.execute("UPDATE script_cards SET ends_paragraph = (pause = 0.6)")
