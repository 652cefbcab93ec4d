"""Covers: pictures reduced to JPEGs without metadata."""

from __future__ import annotations

from engine.errors import InvalidInput
from storage.scripts.limits import MAX_COVER
from studio.pictures.reading import encode, upright_on_white

SIDE = 1_000  # pixels at most
MAX_PIXELS = 25_000_000  # of the picture
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")


def make_cover(picture: bytes) -> bytes:
    """Scale a picture down to SIDE pixels, on white, turned upright. Raises InvalidInput if it cannot be read."""
    bad = InvalidInput("cards.bad_cover")
    cover = upright_on_white(picture, _FORMATS, SIDE, MAX_PIXELS, large=bad, unreadable=bad)
    cover.thumbnail((SIDE, SIDE))
    return encode(cover, "JPEG", MAX_COVER)
