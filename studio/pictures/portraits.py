"""Portraits of voices: photographs reduced to small squares without metadata."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

from PIL import ImageOps

from engine.errors import InvalidInput, UnreadableFile
from engine.files.bounded import read_regular
from engine.voice import MAX_PORTRAIT
from studio.pictures.reading import encode, upright_on_white

SIDE = 192  # pixels
MAX_PIXELS = 50_000_000  # of a photograph
MAX_BYTES = 20 << 20  # of its file
_FORMATS = ("JPEG", "PNG", "WEBP")


def make_portrait(photograph: bytes | Path) -> bytes:
    """Crop a photograph to a WebP of SIDE by SIDE pixels, turned upright, without EXIF or other metadata.

    Raises InvalidInput for a file that is not a JPEG, PNG or WebP, or is too large.
    """
    try:
        data = photograph if isinstance(photograph, bytes) else read_regular(photograph, MAX_BYTES)
    except UnreadableFile as error:
        raise InvalidInput(error.message.key, **error.message.values) from error
    if len(data) > MAX_BYTES:
        raise InvalidInput("portrait.large", most=MAX_PIXELS // 1_000_000)
    upright = upright_on_white(
        data,
        _FORMATS,
        4 * SIDE,
        MAX_PIXELS,
        large=InvalidInput("portrait.large", most=MAX_PIXELS // 1_000_000),
        unreadable=InvalidInput("portrait.unreadable"),
    )
    return encode(ImageOps.fit(upright, (SIDE, SIDE)), "WEBP", MAX_PORTRAIT)


def portrait_id(picture: bytes) -> str:
    """Return a short hash of a picture, by which pages notice that it has changed; "" for no picture."""
    return hashlib.blake2b(picture, digest_size=8).hexdigest() if picture else ""


def portrait_url(picture: bytes) -> str:
    """Return a picture as a data URL; "" for no picture."""
    return f"data:image/webp;base64,{b64encode(picture).decode()}" if picture else ""
