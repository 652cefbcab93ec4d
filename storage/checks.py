"""What every table asks of what it is given: ids, owners, settings."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Mapping

from engine.errors import InvalidInput
from engine.voice import check_text
from storage.failures import damaged

Settings = Mapping[str, str | int | float | bool | None]
"""How something was, or is to be, spoken: names and plain values."""

MAX_OWNER = 200  # characters, as are the other limits of text
MAX_SEED = 2**31 - 1
_MAX_SETTINGS = 4_000

_ID = re.compile(r"[0-9a-f]{32}")


def new_id() -> str:
    """An id that nobody can guess: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether some library may have given this out; nothing else is asked for in the database."""
    return _ID.fullmatch(text) is not None


def checked_owner(owner: str) -> str:
    """Raises InvalidInput for what cannot be an owner."""
    check_text(owner, "owner", MAX_OWNER)
    if not owner:
        raise InvalidInput("Whose this is has to be said: it needs an owner.")
    return owner


def check_seed(seed: int | None) -> None:
    """Raises InvalidInput for a seed that the engine would not take."""
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise InvalidInput(f"The seed is {seed}; choose a whole number from 0 to {MAX_SEED}.")


def settings_to_json(settings: Settings) -> str:
    """Raises InvalidInput for more than 4,000 characters, or what is no plain value."""
    try:
        written = json.dumps(dict(settings), ensure_ascii=False, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"These settings cannot be kept: {error}.") from error
    check_text(written, "settings", _MAX_SETTINGS)
    return written


def settings_from_json(written: str) -> dict[str, str | int | float | bool | None]:
    """What `settings_to_json` wrote. Raises DatabaseUnavailable for anything else."""
    try:
        read: dict[str, str | int | float | bool | None] = json.loads(written)
    except (TypeError, ValueError) as error:
        raise damaged("settings that are none") from error
    return read


def check_number(value: float | None, what: str, *, lowest: float, highest: float = math.inf) -> None:
    """Raises InvalidInput, naming `what`, for a number that is not finite or out of bounds."""
    if value is not None and not (math.isfinite(value) and lowest <= value <= highest):
        limits = f"from {lowest:g} to {highest:g}" if math.isfinite(highest) else f"of at least {lowest:g}"
        raise InvalidInput(f"The {what} is {value:g}; it has to be a number {limits}.")
