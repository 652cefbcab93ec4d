"""Statements that insert or replace a row, and those that tell how many rows they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import CursorResult, Delete, Update, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from storage.models import Base


def changed_rows(session: Session, statement: Delete | Update) -> int:
    """Execute a statement; return the number of rows that it changes. The session's loaded objects do not change."""
    done = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(done, CursorResult)
    return done.rowcount


def put_row(*, session: Session, table: type[Base], key: Sequence[str], values: Mapping[str, Any]) -> None:
    """Insert a row; if one with the same key exists, set its other columns, except the primary key.

    Concurrent calls wait for each other. The session's loaded objects do not change.
    key: the columns of the primary key or of a unique index. values: by column, including the key.
    """
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values(**values)
    kept = {*key, *(column.name for column in inspect(table).primary_key)}
    changed = {name: statement.excluded[name] for name in values if name not in kept}
    if changed:
        session.execute(statement.on_conflict_do_update(index_elements=key, set_=changed))
    else:
        session.execute(statement.on_conflict_do_nothing(index_elements=key))
