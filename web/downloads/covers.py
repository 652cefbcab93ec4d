"""Audiobook covers, held in memory between upload and download."""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
from collections import OrderedDict

from engine.errors import InvalidInput

MAX_BYTES = 700_000  # per cover; the page scales covers down before upload
MAX_COVERS = 32  # covers of all owners


class CoverStore:
    """The most recent covers, by unguessable ids."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._covers: OrderedDict[str, bytes] = OrderedDict()

    def put(self, written: str) -> str:
        """Store a base64-encoded picture and return its id. Raises InvalidInput."""
        try:
            cover = base64.b64decode(written, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInput("cards.bad_cover") from error
        if not 0 < len(cover) <= MAX_BYTES:
            raise InvalidInput("cards.bad_cover")
        name = secrets.token_hex(8)
        with self._lock:
            self._covers[name] = cover
            while len(self._covers) > MAX_COVERS:
                self._covers.popitem(last=False)
        return name

    def get(self, name: str) -> bytes:
        """Return a cover. Raises InvalidInput if it is not stored any more."""
        with self._lock:
            cover = self._covers.get(name)
        if cover is None:
            raise InvalidInput("cards.bad_cover")
        return cover
