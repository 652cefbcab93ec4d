"""Secrets of the server, such as signing keys. All processes with the same database share them."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from sqlalchemy import LargeBinary, String
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, Session, mapped_column

from storage.models import Base, UtcDateTime

SECRET_BYTES = 32


class SecretRow(Base):
    """One of the server's secrets."""

    __tablename__ = "server_secrets"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)
    created: Mapped[datetime] = mapped_column(UtcDateTime)


def get_or_make(*, session: Session, name: str) -> bytes:
    """Return the secret of that name, 32 random bytes, created at first use. session: of a writing transaction."""
    row = session.get(SecretRow, name) or _create(session, name)
    return row.value


def _create(session: Session, name: str) -> SecretRow:
    row = SecretRow(name=name, value=secrets.token_bytes(SECRET_BYTES), created=datetime.now(UTC))
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:  # another process created it first
        return session.get_one(SecretRow, name)
    return row
