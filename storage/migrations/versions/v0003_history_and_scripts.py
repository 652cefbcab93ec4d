"""Generations, scripts and owners' settings. Comes after 0002."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "generations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("listed", sa.Boolean(), nullable=False),
        sa.Column("starred", sa.Boolean(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("search_key", sa.Text(), nullable=False),
        sa.Column("voice_id", sa.String(length=32), nullable=True),
        sa.Column("voice_name", sa.String(length=80), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.Column("real_time_factor", sa.Double(), nullable=True),
        sa.Column("first_audio", sa.Double(), nullable=True),
        sa.Column("stop_reason", sa.String(length=20), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.CheckConstraint("duration > 0", name=op.f("ck_generations_duration_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_generations")),
    )
    op.create_index(op.f("ix_generations_owner_created_id"), "generations", ["owner", "created", "id"])
    op.create_table(
        "owner_settings",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("history", sa.Boolean(), nullable=False),
        sa.Column("retention_days", sa.Integer(), nullable=False),
        sa.CheckConstraint("retention_days > 0", name=op.f("ck_owner_settings_retention_positive")),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_owner_settings")),
    )
    op.create_table(
        "scripts",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scripts")),
    )
    op.create_index(op.f("ix_scripts_owner"), "scripts", ["owner"])
    op.create_table(
        "voice_uses",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("voice_id", sa.String(length=32), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "voice_id", name=op.f("pk_voice_uses")),
    )
    op.create_table(
        "generation_audio",
        sa.Column("generation_id", sa.String(length=32), nullable=False),
        sa.Column("audio", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"], ["generations.id"], name=op.f("fk_generation_audio_generations"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("generation_id", name=op.f("pk_generation_audio")),
    )
    op.create_table(
        "script_cards",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("script_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("speaker", sa.String(length=80), nullable=True),
        sa.Column("voice_id", sa.String(length=32), nullable=True),
        sa.Column("pause", sa.Double(), nullable=False),
        sa.Column("locked", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("seed", sa.Integer(), nullable=True),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.CheckConstraint("(status = 'failed') = (failure IS NOT NULL)", name=op.f("ck_script_cards_failure_told")),
        sa.CheckConstraint("status IN ('idle', 'queued', 'failed')", name=op.f("ck_script_cards_status_known")),
        sa.ForeignKeyConstraint(
            ["script_id"], ["scripts.id"], name=op.f("fk_script_cards_scripts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_script_cards")),
    )
    op.create_index(op.f("ix_script_cards_script_id_position"), "script_cards", ["script_id", "position"])
    op.create_table(
        "card_takes",
        sa.Column("generation_id", sa.String(length=32), nullable=False),
        sa.Column("card_id", sa.String(length=32), nullable=False),
        sa.Column("chosen", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"], ["generations.id"], name=op.f("fk_card_takes_generations"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["card_id"], ["script_cards.id"], name=op.f("fk_card_takes_script_cards"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("generation_id", name=op.f("pk_card_takes")),
    )
    op.create_index(op.f("ix_card_takes_card_id"), "card_takes", ["card_id"])
    op.create_index(
        "uq_card_takes_chosen",
        "card_takes",
        ["card_id"],
        unique=True,
        sqlite_where=sa.text("chosen"),
        postgresql_where=sa.text("chosen"),
    )
