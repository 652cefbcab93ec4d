"""Portraits of voices: photographs reduced to small squares without metadata."""

from __future__ import annotations

import hashlib
import io
import warnings
from base64 import b64encode
from pathlib import Path

from PIL import Image, ImageOps

from engine.errors import InvalidInput, UnreadableFile
from engine.files.bounded import read_regular
from engine.voice import MAX_PORTRAIT

SIDE = 192  # pixels
MAX_PIXELS = 50_000_000  # of a photograph
MAX_BYTES = 20 << 20  # of its file
_FORMATS = ("JPEG", "PNG", "WEBP")
_QUALITIES = (85, 60, 30)


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
    square = _square(data)
    for quality in _QUALITIES:
        file = io.BytesIO()
        square.save(file, "WEBP", quality=quality)
        if file.tell() <= MAX_PORTRAIT:
            break
    return file.getvalue()


def portrait_id(picture: bytes) -> str:
    """Return a short hash of a picture, by which pages notice that it has changed; "" for no picture."""
    return hashlib.blake2b(picture, digest_size=8).hexdigest() if picture else ""


def portrait_url(picture: bytes) -> str:
    """Return a picture as a data URL; "" for no picture."""
    return f"data:image/webp;base64,{b64encode(picture).decode()}" if picture else ""


def _square(data: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large images; the size is checked below
            with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise InvalidInput("portrait.large", most=MAX_PIXELS // 1_000_000)
                picture.draft("RGB", (4 * SIDE, 4 * SIDE))
                upright = _in_8_bits(ImageOps.exif_transpose(picture)).convert("RGBA")
                seen = Image.new("RGBA", upright.size, "white")
                seen.alpha_composite(upright)
                return ImageOps.fit(seen.convert("RGB"), (SIDE, SIDE))
    except InvalidInput:
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        raise InvalidInput("portrait.unreadable") from error


def _in_8_bits(picture: Image.Image) -> Image.Image:
    """Scale grey values of 16 bits, which Pillow's conversion would clip at 255."""
    return picture.convert("I").point(lambda value: value / 256).convert("L") if picture.mode == "I;16" else picture
