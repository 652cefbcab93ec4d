"""Settings of the server that are changed on its page. All processes with the same database share them."""

from __future__ import annotations

from storage.database import Database
from storage.models import ServerSettingRow
from storage.repositories.statements import put_row


class ServerSettings:
    """Values by name. All methods may raise DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> str | None:
        """Return a value, or None."""
        with self._database.read() as session:
            row = session.get(ServerSettingRow, name)
            return row.value if row else None

    def put(self, name: str, value: str) -> None:
        """Set a value. name: at most 40 characters."""
        with self._database.write() as session:
            put_row(session=session, table=ServerSettingRow, key=["name"], values={"name": name, "value": value})
