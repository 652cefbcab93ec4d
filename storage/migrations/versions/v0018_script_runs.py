"""Runs of processes that are speaking a script, and the cards that they are speaking. Comes after 0017."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "script_runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("script_id", sa.String(length=32), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["script_id"], ["scripts.id"], name=op.f("fk_script_runs_scripts"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_script_runs")),
    )
    op.create_index(op.f("ix_script_runs_script_id"), "script_runs", ["script_id"])
    op.create_table(
        "card_claims",
        sa.Column("card_id", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["card_id"], ["script_cards.id"], name=op.f("fk_card_claims_script_cards"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["script_runs.id"], name=op.f("fk_card_claims_script_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("card_id", name=op.f("pk_card_claims")),
    )
    op.create_index(op.f("ix_card_claims_run_id"), "card_claims", ["run_id"])
