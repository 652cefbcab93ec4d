"""Covers of audio books, in memory between their upload and the download that they are for."""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
from collections import OrderedDict

from engine.errors import InvalidInput

MOST_BYTES = 700_000  # of one; the page makes them smaller
MOST = 32  # of all owners


class CoverStore:
    """The latest covers, by ids that cannot be guessed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._covers: OrderedDict[str, bytes] = OrderedDict()

    def put(self, written: str) -> str:
        """Keep a picture in base64; return its id. Raises InvalidInput."""
        try:
            cover = base64.b64decode(written, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInput("cards.bad_cover") from error
        if not 0 < len(cover) <= MOST_BYTES:
            raise InvalidInput("cards.bad_cover")
        name = secrets.token_hex(8)
        with self._lock:
            self._covers[name] = cover
            while len(self._covers) > MOST:
                self._covers.popitem(last=False)
        return name

    def get(self, name: str) -> bytes:
        """Raises InvalidInput for one that is no longer kept."""
        with self._lock:
            cover = self._covers.get(name)
        if cover is None:
            raise InvalidInput("cards.bad_cover")
        return cover
