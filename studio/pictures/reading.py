"""Pictures that users give: read within bounds, and encoded into few bytes."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageOps

from engine.errors import InvalidInput

_QUALITIES = (85, 60, 30)


def upright_on_white(
    data: bytes, formats: tuple[str, ...], side: int, max_pixels: int, *, large: InvalidInput, unreadable: InvalidInput
) -> Image.Image:
    """Read a picture as RGB, turned upright, with white where it is transparent.

    side: pixels that suffice, so that a JPEG may be read smaller than it is. formats: Pillow's names.
    large, unreadable: raised for a picture of more than `max_pixels`, and for one that cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large images; the size is checked below
            with Image.open(io.BytesIO(data), formats=formats) as picture:
                if picture.width * picture.height > max_pixels:
                    raise large
                picture.draft("RGB", (side, side))
                upright = _in_8_bits(ImageOps.exif_transpose(picture)).convert("RGBA")
        seen = Image.new("RGBA", upright.size, "white")
        seen.alpha_composite(upright)
        return seen.convert("RGB")
    except InvalidInput:
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        raise unreadable from error


def encode(picture: Image.Image, format: str, most: int) -> bytes:
    """Encode a picture in the best quality that takes at most `most` bytes, or else in the lowest one."""
    for quality in _QUALITIES:
        file = io.BytesIO()
        picture.save(file, format, quality=quality)
        if file.tell() <= most:
            break
    return file.getvalue()


def _in_8_bits(picture: Image.Image) -> Image.Image:
    """Scale grey values of 16 bits, which Pillow's conversion would clip at 255."""
    return picture.convert("I").point(lambda value: value / 256).convert("L") if picture.mode == "I;16" else picture
