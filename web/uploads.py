"""Files that visitors sent."""

from __future__ import annotations

from pathlib import Path

from engine.errors import InvalidInput

MAX_UPLOAD_MB = 50


def uploaded_path(value: object, folder: str | Path) -> Path | None:
    """The file behind the value of an upload button, None when there is none.

    The value comes from the browser: only files among this page's uploads are accepted. Raises InvalidInput.
    """
    if not value:
        return None
    path = value.get("path") if isinstance(value, dict) else None
    if not isinstance(path, str) or "\0" in path:
        raise InvalidInput("That is not a file that was uploaded here.")
    resolved = Path(path).resolve()
    if not (resolved.is_relative_to(Path(folder).resolve()) and resolved.is_file()):
        raise InvalidInput("The file is no longer on the server. Choose it again.")
    return resolved
