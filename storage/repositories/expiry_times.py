"""The times at which old takes were looked for: within the caller's session.

A clock that is set forward by mistake makes all takes old at once. It cannot be told from a server that was off for
long; so a time that is far ahead of the last one is trusted when a later one confirms it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from storage.database_errors import damaged
from storage.models import ServerSettingRow
from storage.repositories.statements import put_row

LONGEST_GAP = timedelta(days=2)  # between two daily calls
CONFIRMED = timedelta(hours=20)  # after its first sighting, a time is trusted: less than a day, since calls are daily
_SETTING = "last_expiry"  # the last trusted time and, after a space, the first one that is not trusted yet


def next_time(*, session: Session, now: datetime) -> datetime:
    """Note a call; return the time that it works with: now, or an earlier trusted one if now is not confirmed yet."""
    row = session.get(ServerSettingRow, _SETTING)
    try:
        last, *sighted = [now] if row is None else map(datetime.fromisoformat, row.value.split(" "))
        last, first = _judged(now, last, sighted[0] if sighted else None)
    except (TypeError, ValueError) as error:
        raise damaged("a setting that is not a time") from error
    value = " ".join(time.isoformat() for time in (last, first) if time)
    put_row(session=session, table=ServerSettingRow, key=["name"], values={"name": _SETTING, "value": value})
    return last


def _judged(now: datetime, last: datetime, first: datetime | None) -> tuple[datetime, datetime | None]:
    """Return the trusted time, and the first one that is not trusted yet. last, first: those before this call."""
    if now - last <= LONGEST_GAP:
        return now, None
    if first is None or now < first:
        return last, now
    if now - first < CONFIRMED:
        return last, first
    return (now, None) if now - first <= LONGEST_GAP else (first, now)
