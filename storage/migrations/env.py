"""Alembic's environment. The connection and the transaction are the caller's."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import TypeDecorator

from storage.migrations import VERSION_TABLE
from storage.models import Base


def render_item(kind: str, item: Any, _: AutogenContext) -> str | Literal[False]:
    """Render column types of `storage.models` by their implementation, which does not depend on later models."""
    return f"sa.{item.impl!r}" if kind == "type" and isinstance(item, TypeDecorator) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite cannot alter most of a table, so it is copied
    render_item=render_item,
)
with context.begin_transaction():
    context.run_migrations()
