"""One pronunciation of a word for each owner and language. Comes after 0015."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Concurrent calls could store an entry twice. Which of them is the latest is unknown.
    op.execute(
        "DELETE FROM pronunciations WHERE id NOT IN (SELECT max(id) FROM pronunciations GROUP BY owner, word, language)"
    )
    op.drop_index(op.f("ix_pronunciations_owner"), "pronunciations")
    op.create_index(
        op.f("ix_pronunciations_owner_word_language"), "pronunciations", ["owner", "word", "language"], unique=True
    )
