"""Recogniser transcripts of takes, and settings of the server. Comes after 0012."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "take_hearings",
        sa.Column("generation_id", sa.String(length=32), nullable=False),
        sa.Column("heard", sa.Text(), nullable=False),
        sa.Column("word_error", sa.Double(), nullable=False),
        sa.Column("marks", sa.Text(), nullable=False),
        sa.Column("recogniser", sa.String(length=200), nullable=False),
        sa.CheckConstraint("word_error >= 0", name=op.f("ck_take_hearings_word_error_positive")),
        sa.ForeignKeyConstraint(
            ["generation_id"],
            ["card_takes.generation_id"],
            name=op.f("fk_take_hearings_card_takes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("generation_id", name=op.f("pk_take_hearings")),
    )
    op.create_table(
        "server_settings",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_server_settings")),
    )
