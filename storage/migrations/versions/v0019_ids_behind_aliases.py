"""Aliases of keys refer to saved voices by id, no longer by name. Comes after 0018."""

import json
import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

KEYS = sa.table("api_keys", sa.column("id"), sa.column("owner"), sa.column("voices"))
VOICES = sa.table("voices", sa.column("id"), sa.column("owner"), sa.column("name_key"), sa.column("set_aside"))


def upgrade() -> None:
    # A name that is no saved voice's stays: it is that of a sample voice, of a model's own, or of a deleted voice.
    connection = op.get_bind()
    for key_id, owner, written in connection.execute(sa.select(KEYS).where(KEYS.c.voices != "{}")).all():
        named = json.loads(written)
        ids = {alias: _saved_voice(connection, owner, name) or name for alias, name in named.items()}
        if ids != named:
            changed = json.dumps(ids, ensure_ascii=False, sort_keys=True)
            connection.execute(sa.update(KEYS).where(KEYS.c.id == key_id).values(voices=changed))


def _saved_voice(connection: sa.Connection, owner: str, name: str) -> str | None:
    query = sa.select(VOICES.c.id).where(
        VOICES.c.owner == owner, VOICES.c.name_key == _fold(name), VOICES.c.set_aside.is_(None)
    )
    found: str | None = connection.scalar(query)
    return found


def _fold(name: str) -> str:
    """Return the key of a voice's name, as it is stored in this version."""
    cleaned = " ".join(unicodedata.normalize("NFC", name).split())
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", cleaned).casefold())
