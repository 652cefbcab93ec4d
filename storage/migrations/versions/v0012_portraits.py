"""Pictures of voices. Comes after 0011."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "voice_portraits",
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.Column("lead", sa.LargeBinary(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["voice_id"], ["voices.id"], name=op.f("fk_voice_portraits_voices"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("voice_id", name=op.f("pk_voice_portraits")),
    )
