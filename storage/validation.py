"""Values shared by all tables: ids, owners, times and settings, with their validation."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from engine.errors import InvalidInput
from engine.messages import UserMessage
from engine.voice import check_field
from storage.database_errors import damaged

Settings = Mapping[str, str | int | float | bool | None]
"""Settings of speech: plain values by name."""

Clock = Callable[[], datetime]
"""Returns an aware time."""

LOCAL = "local"  # the owner without a login
MAX_OWNER = MAX_SEARCH = 200  # characters, as are the other text limits
MAX_SEED = 2**31 - 1
_MAX_SETTINGS = 4_000

_ID = re.compile(r"[0-9a-f]{32}")


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Make an unguessable id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; the database is not queried for anything else."""
    return _ID.fullmatch(text) is not None


def checked_owner(owner: str) -> str:
    """Return the owner. Raises InvalidInput if it is empty or too long."""
    check_field(owner, "owner", MAX_OWNER)
    if not owner:
        raise InvalidInput("field.no_owner")
    return owner


def check_seed(seed: int) -> None:
    """Raise InvalidInput for a seed that the engine does not accept."""
    if not 0 <= seed <= MAX_SEED:
        raise InvalidInput("option.seed", seed=str(seed), most=str(MAX_SEED))


def settings_to_json(settings: Settings) -> str:
    """Encode settings. Raises InvalidInput for more than 4,000 characters or a value that is not plain."""
    try:
        written = json.dumps(dict(settings), ensure_ascii=False, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput("field.bad_settings", why=str(error)) from error
    check_field(written, "settings", _MAX_SETTINGS)
    return written


def settings_from_json(written: str) -> dict[str, str | int | float | bool | None]:
    """Decode what `settings_to_json` wrote. Raises DatabaseUnavailable for anything else."""
    try:
        read: dict[str, str | int | float | bool | None] = json.loads(written)
    except (TypeError, ValueError) as error:
        raise damaged("settings that are not JSON") from error
    return read


def check_number(value: float | None, field: str, *, lowest: float, highest: float = math.inf) -> None:
    """Raise InvalidInput for a number that is not finite or out of bounds. field: a key of `field.*`."""
    if value is None or (math.isfinite(value) and lowest <= value <= highest):
        return
    name = UserMessage(f"field.{field}")
    if math.isfinite(highest):
        raise InvalidInput("field.out_of_range", field=name, value=value, least=lowest, most=highest)
    raise InvalidInput("field.too_small", field=name, value=value, least=lowest)
