"""Files that visitors sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, StringConstraints, ValidationError

from engine.errors import InvalidInput
from web.ui.events import Sent, otherwise

MAX_UPLOAD_MB = 50
MAX_FILE_NAME = 200  # characters


class Upload(Sent):
    """An upload as the page speaks of it: where it lies, and what the person calls it."""

    model_config = ConfigDict(extra="ignore")  # Gradio's buttons send more

    path: Annotated[str, StringConstraints(max_length=4_096, pattern=r"^[^\x00]+$")]
    name: Annotated[str, otherwise("")] = ""
    orig_name: Annotated[str, otherwise("")] = ""


def uploaded_path(value: object, folder: str | Path) -> Path | None:
    """The file behind the value of an upload button, None when there is none.

    The value comes from the browser: only files among this page's uploads are accepted. Raises InvalidInput.
    """
    if not value:
        return None
    upload = _upload(value)
    if upload is None:
        raise InvalidInput("That is not a file that was uploaded here.")
    try:
        resolved = Path(upload.path).resolve()
        there = resolved.is_relative_to(Path(folder).resolve()) and resolved.is_file()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        raise InvalidInput("The file is no longer on the server. Choose it again.")
    return resolved


def uploaded_name(value: object) -> str:
    """What the person calls an upload, "" where nothing is said."""
    upload = _upload(value)
    return (upload.name or upload.orig_name)[:MAX_FILE_NAME] if upload else ""


def _upload(value: object) -> Upload | None:
    try:
        return Upload.model_validate(value)
    except ValidationError:
        return None
