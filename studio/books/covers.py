"""Covers: pictures reduced to JPEGs without metadata."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageOps

from engine.errors import InvalidInput
from storage.scripts.limits import MAX_COVER

SIDE = 1_000  # pixels at most
MAX_PIXELS = 25_000_000  # of the picture
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_QUALITIES = (85, 60, 30)


def make_cover(picture: bytes) -> bytes:
    """Scale a picture down to SIDE pixels, on white, turned upright. Raises InvalidInput if it cannot be read."""
    scaled = _scaled(picture)
    for quality in _QUALITIES:
        file = io.BytesIO()
        scaled.save(file, "JPEG", quality=quality)
        if file.tell() <= MAX_COVER:
            break
    return file.getvalue()


def _scaled(data: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large images; the size is checked below
            with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise InvalidInput("cards.bad_cover")
                picture.draft("RGB", (SIDE, SIDE))
                ImageOps.exif_transpose(picture, in_place=True)
                upright = picture.convert("RGBA")
        upright.thumbnail((SIDE, SIDE))
        scaled = Image.new("RGB", upright.size, "white")
        scaled.paste(upright, mask=upright)
        return scaled
    except InvalidInput:
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        raise InvalidInput("cards.bad_cover") from error
