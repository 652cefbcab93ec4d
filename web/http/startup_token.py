"""The token of a server for this machine alone: printed in the link at start, then kept by the browser.

Whoever reaches the server without it sees a page that asks for it: another user of this machine, a proxy that passes
itself off as this machine, or a page with a name that points here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from itsdangerous import BadSignature, TimestampSigner

NAME = "token"  # in the link
DAYS = 30
_KNOWN = b"opened here"


class StartupToken:
    """The token, and the cookie by which a browser that has shown it is known again, also after a restart."""

    def __init__(self, secret: bytes) -> None:
        """`secret`: the server's own, which outlives it."""
        self.value = secrets.token_urlsafe(24)
        self._signer = TimestampSigner(
            secret, salt="reprise.startup", key_derivation="hmac", digest_method=hashlib.sha256
        )

    def link(self, url: str) -> str:
        """The page's address with the token."""
        return f"{url.rstrip('/')}/?{urlencode({NAME: self.value})}"

    def matches(self, given: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.value.encode())

    def cookie(self, port: int) -> dict[str, Any]:
        """For `Response.set_cookie`. Browsers send cookies to all ports of a host: each server has its own name."""
        value = self._signer.sign(_KNOWN).decode()
        return {"key": _cookie(port), "value": value, "max_age": DAYS * 86400, "httponly": True, "samesite": "lax"}

    def knows(self, cookies: Mapping[str, str], port: int) -> bool:
        """Whether the browser with these cookies has shown the token."""
        try:
            return self._signer.unsign(cookies.get(_cookie(port), ""), max_age=DAYS * 86400) == _KNOWN
        except BadSignature:
            return False


def _cookie(port: int) -> str:
    return f"reprise-{port}"
