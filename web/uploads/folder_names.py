"""Names of the folders in which uploads are stored: unguessable, and one for each upload."""

from __future__ import annotations

import re
import secrets

_NAME = re.compile(r"[0-9a-f]{32}")


def new_folder_name() -> str:
    """Return a name for the folder of one upload."""
    return secrets.token_hex(16)


def is_folder_name(name: str) -> bool:
    """Whether `new_folder_name` could have returned this name."""
    return _NAME.fullmatch(name) is not None
