"""The times at which old takes were looked for: within the caller's session.

A clock that is set forward by mistake makes all takes old at once. It cannot be told from a server that was off for
long; so after each of these, takes are deleted one call later.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from storage.database_errors import damaged
from storage.models import ServerSettingRow
from storage.repositories.statements import put_row

LONGEST_GAP = timedelta(days=2)  # between two daily calls
_SETTING = "last_expiry"


def next_time(*, session: Session, now: datetime) -> datetime:
    """Note a call; return the time that it works with: now, or after a longer gap the time of the last call."""
    row = session.get(ServerSettingRow, _SETTING)
    try:
        last = now if row is None else datetime.fromisoformat(row.value)
        gap = now - last
    except (TypeError, ValueError) as error:
        raise damaged("a setting that is not a time") from error
    values = {"name": _SETTING, "value": now.isoformat()}
    put_row(session=session, table=ServerSettingRow, key=["name"], values=values)
    return last if gap > LONGEST_GAP else now
