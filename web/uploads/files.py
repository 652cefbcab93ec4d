"""Uploaded files in event data."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, StringConstraints, ValidationError

from engine.errors import InvalidInput
from storage.validation import is_id
from web.ui.payloads import Payload, UnexpectedPayload, default_if_invalid

MAX_UPLOAD_MB = 50
MAX_FILE_NAME = 200  # characters


class Upload(Payload):
    """An upload in an event: its path and original file name."""

    model_config = ConfigDict(extra="ignore")  # events have more fields

    path: Annotated[str, StringConstraints(max_length=4_096, pattern=r"^[^\x00]+$")]
    name: Annotated[str, default_if_invalid("")] = ""


def uploaded_path(value: object, folder: str | Path) -> Path | None:
    """Return the file of an upload, None if the value is empty.

    The value is untrusted: only files that `UploadStore` keeps in this folder are accepted. Raises InvalidInput.
    """
    if not value:
        return None
    upload = _upload(value)
    if upload is None:
        raise UnexpectedPayload
    try:
        resolved = Path(upload.path).resolve()
        own = resolved.parent
        there = own.parent == Path(folder).resolve() and is_id(own.name) and resolved.is_file()
    except OSError:  # an invalid file name
        there = False
    if not there:
        raise InvalidInput("notice.upload_gone")
    return resolved


def mark_used(upload: Path) -> None:
    """Mark an upload as used, so that it is kept longer than unused ones."""
    with suppress(OSError):  # deleted meanwhile
        os.utime(upload)


def delete_upload(upload: Path) -> None:
    """Delete an upload, whose path is from `uploaded_path`, and its own folder."""
    upload.unlink(missing_ok=True)
    with suppress(OSError):  # not empty, or deleted meanwhile
        upload.parent.rmdir()


def discard_upload(value: object, folder: str | Path) -> None:
    """Delete the upload of a value that will not be used. Any other value is ignored."""
    with suppress(InvalidInput):  # already deleted, or not an upload
        if upload := uploaded_path(value, folder):
            delete_upload(upload)


def uploaded_name(value: object) -> str:
    """Return the original file name of an upload, "" if unknown."""
    upload = _upload(value)
    return upload.name[:MAX_FILE_NAME] if upload else ""


def _upload(value: object) -> Upload | None:
    try:
        return Upload.model_validate(value)
    except ValidationError:
        return None
