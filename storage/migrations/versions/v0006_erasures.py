"""Erasure of deleted data: sound and transcripts in separate pages, and pending erasures.

Comes after 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("requested", sa.Integer(), nullable=False),
        sa.Column("finished", sa.Integer(), nullable=False),
        sa.Column("free_pages", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )
    # A database used with an earlier version contains bytes to be overwritten.
    used = "EXISTS (SELECT 1 FROM voices) OR EXISTS (SELECT 1 FROM generations) OR EXISTS (SELECT 1 FROM scripts)"
    op.execute(
        "INSERT INTO erasures (id, requested, finished, free_pages)"
        f" SELECT 1, CASE WHEN {used} THEN 1 ELSE 0 END, 0, false"
    )
    if op.get_bind().dialect.name == "sqlite":
        _copy_references()
        _copy_audio()
    else:
        for table in ("voice_references", "generation_audio"):
            op.add_column(table, sa.Column("lead", sa.LargeBinary(), nullable=False, server_default=""))
            op.alter_column(table, "lead", server_default=None)


def _copy_references() -> None:
    op.create_table(
        "new_voice_references",
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.Column("sample_rate", sa.Integer(), nullable=False),
        sa.Column("lead", sa.LargeBinary(), nullable=False),
        sa.Column("transcript", sa.Text(), nullable=False),
        sa.Column("clip", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("duration > 0", name=op.f("ck_voice_references_duration_positive")),
        sa.ForeignKeyConstraint(
            ["voice_id"], ["voices.id"], name=op.f("fk_voice_references_voices"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("voice_id", "position", name=op.f("pk_voice_references")),
    )
    _move("voice_references", "voice_id, position, duration, sample_rate, zeroblob(4096), transcript, clip")


def _copy_audio() -> None:
    op.create_table(
        "new_generation_audio",
        sa.Column("generation_id", sa.String(length=32), nullable=False),
        sa.Column("lead", sa.LargeBinary(), nullable=False),
        sa.Column("audio", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"], ["generations.id"], name=op.f("fk_generation_audio_generations"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("generation_id", name=op.f("pk_generation_audio")),
    )
    _move("generation_audio", "generation_id, zeroblob(4096), audio")


def _move(table: str, columns: str) -> None:
    """Move rows one by one: each takes the pages that the last one freed, so the file does not double in size."""
    connection = op.get_bind()
    rows = connection.exec_driver_sql(f"SELECT rowid FROM {table} ORDER BY rowid").scalars().all()
    for row in rows:
        connection.exec_driver_sql(f"INSERT INTO new_{table} SELECT {columns} FROM {table} WHERE rowid = ?", (row,))
        connection.exec_driver_sql(f"DELETE FROM {table} WHERE rowid = ?", (row,))
    op.drop_table(table)
    op.rename_table(f"new_{table}", table)
