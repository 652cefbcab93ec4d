"""API keys. Comes after 0006."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("hint", sa.String(length=12), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("rate", sa.Integer(), nullable=True),
        sa.Column("rate_seconds", sa.Integer(), nullable=True),
        sa.Column("quota", sa.Integer(), nullable=True),
        sa.Column("quota_seconds", sa.Integer(), nullable=True),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("voices", sa.Text(), nullable=False),
        sa.CheckConstraint("(rate IS NULL) = (rate_seconds IS NULL)", name=op.f("ck_api_keys_rate_whole")),
        sa.CheckConstraint("(quota IS NULL) = (quota_seconds IS NULL)", name=op.f("ck_api_keys_quota_whole")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
        sa.UniqueConstraint("name", name=op.f("uq_api_keys_name")),
    )
    op.create_index(op.f("ix_api_keys_owner"), "api_keys", ["owner"])
