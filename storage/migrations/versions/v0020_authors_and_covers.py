"""Authors and covers of scripts. Comes after 0019."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("scripts", sa.Column("author", sa.String(length=200), server_default="", nullable=False))
    op.create_table(
        "script_covers",
        sa.Column("script_id", sa.String(length=32), nullable=False),
        sa.Column("mark", sa.String(length=32), nullable=False),
        sa.Column("lead", sa.LargeBinary(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["script_id"], ["scripts.id"], name=op.f("fk_script_covers_scripts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("script_id", name=op.f("pk_script_covers")),
    )
