"""Migrations of the database from empty to head; they run when a database is opened.

After a change to `storage/models.py`, generate the next one with `python -m storage.migrations "what changes"`, then
review and correct it. Migrations only go forward; an older state is restored from a backup.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from storage.errors import DatabaseUnavailable

VERSION_TABLE = "reprise_version"  # a PostgreSQL database may be shared with other programs that use Alembic
_ALEMBIC = threading.Lock()  # Alembic keeps the running migration in module globals


def config(connection: Connection | None = None) -> Config:
    """Return Alembic's settings, without an ini file."""
    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    settings.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    settings.attributes["connection"] = connection
    return settings


def upgrade(connection: Connection) -> None:
    """Bring the database to head within the caller's transaction.

    Raises DatabaseUnavailable if a newer version wrote it.
    """
    heads, _ = _revisions()
    if refuse_newer(connection) != heads:
        with _ALEMBIC:
            command.upgrade(config(connection), "head")


def refuse_newer(connection: Connection) -> frozenset[str]:
    """Return the versions of the database; empty for a new one. Raises DatabaseUnavailable for unknown versions."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = frozenset(context.get_current_heads())
    _, known = _revisions()
    if not current <= known:
        raise DatabaseUnavailable("database.newer")
    return current


def is_older(versions: frozenset[str]) -> bool:
    """Whether these are versions of a library that `upgrade` would change."""
    heads, known = _revisions()
    return bool(versions) and versions <= known and versions != heads


@cache
def _revisions() -> tuple[frozenset[str], frozenset[str]]:
    """Return the latest versions and all known ones. Alembic reads all scripts for this; they never change."""
    scripts = ScriptDirectory.from_config(config())
    return frozenset(scripts.get_heads()), frozenset(script.revision for script in scripts.walk_revisions())
