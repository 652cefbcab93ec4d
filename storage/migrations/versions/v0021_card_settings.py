"""Cards of scripts lose a seed and settings, which no version used. Comes after 0020."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # SQLite before 3.35 drops no columns, so the table is copied. Not all of it can be read from the database.
    cards = sa.Table(
        "script_cards",
        sa.MetaData(),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("script_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("speaker", sa.String(length=80)),
        sa.Column("voice_id", sa.String(length=32)),
        sa.Column("pause", sa.Double(), nullable=False),
        sa.Column("ends_paragraph", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("speed", sa.Double(), server_default="1", nullable=False),
        sa.Column("chapter", sa.String(length=200)),
        sa.Column("locked", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("failure", sa.Text()),
        sa.Column("seed", sa.Integer()),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.CheckConstraint("(status = 'failed') = (failure IS NOT NULL)", name=op.f("ck_script_cards_failure_told")),
        sa.CheckConstraint("status IN ('idle', 'queued', 'failed')", name=op.f("ck_script_cards_status_known")),
        sa.ForeignKeyConstraint(
            ["script_id"], ["scripts.id"], name=op.f("fk_script_cards_scripts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_script_cards")),
        sa.Index(op.f("ix_script_cards_script_id_position"), "script_id", "position"),
    )
    with op.batch_alter_table("script_cards", copy_from=cards) as changed:
        changed.drop_column("seed")
        changed.drop_column("settings")
