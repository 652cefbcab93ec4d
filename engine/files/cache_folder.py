"""The user's cache folder, for code that is compiled on this machine."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """Return Reprise's folder in the user's cache; for a user without a home folder, one of this process."""
    try:
        return user_cache_path("reprise")
    except RuntimeError:  # as in containers that run as any user
        return Path(_temporary().name)


@cache
def _temporary() -> "TemporaryDirectory[str]":
    """Return a folder that is deleted when the process ends."""
    return TemporaryDirectory(prefix="reprise-cache-")
