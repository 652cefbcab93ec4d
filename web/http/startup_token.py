"""The token of a server for this machine alone: printed in the link at start, then kept by the browser as a cookie.

Visitors without it see a page that asks for it: other users of this machine, a proxy that appears local, or a page with
a host name that points here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from itsdangerous import BadSignature, TimestampSigner

if TYPE_CHECKING:
    from web.ui.i18n import Words

TOKEN_PARAMETER = "token"  # in the link
DAYS = 30
_KNOWN = b"opened here"


class StartupToken:
    """The token, and the signed cookie of browsers that have shown it, which outlives a restart."""

    def __init__(self, secret: bytes) -> None:
        """secret: the server's own, which outlives a restart."""
        self.value = secrets.token_urlsafe(24)
        self._signer = TimestampSigner(
            secret, salt="reprise.startup", key_derivation="hmac", digest_method=hashlib.sha256
        )

    def link(self, url: str) -> str:
        """The page's address with the token."""
        return f"{url.rstrip('/')}/?{urlencode({TOKEN_PARAMETER: self.value})}"

    def matches(self, given: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.value.encode())

    def cookie(self, port: int) -> dict[str, Any]:
        """Arguments of `Response.set_cookie`. Cookies ignore ports, so that each server has its own name."""
        value = self._signer.sign(_KNOWN).decode()
        return {"key": _cookie(port), "value": value, "max_age": DAYS * 86400, "httponly": True, "samesite": "lax"}

    def knows(self, cookies: Mapping[str, str], port: int) -> bool:
        """Whether a browser with these cookies has shown the token."""
        try:
            return self._signer.unsign(cookies.get(_cookie(port), ""), max_age=DAYS * 86400) == _KNOWN
        except BadSignature:
            return False


def _cookie(port: int) -> str:
    return f"reprise-{port}"


_LOCKED_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 ui-sans-serif, system-ui, sans-serif }
body { max-width: 30rem; margin: 15vh auto; padding: 0 1.5rem }
form { display: flex; gap: .5rem; margin-top: 1.5rem }
input { flex: 1; min-width: 0 }
input, button { font: inherit; padding: .5rem .75rem; border-radius: .5rem; border: 1px solid #8888 }
"""


def locked_page(words: Words) -> str:
    """HTML that asks for the token."""
    title, text, token, open_it = (escape(words(f"locked.{key}")) for key in ("title", "text", "token", "open"))
    return f"""<!doctype html>
<html lang="{escape(words.language)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_LOCKED_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
<form method="get">
<input name="{TOKEN_PARAMETER}" aria-label="{token}" placeholder="{token}" autocomplete="off" required autofocus>
<button>{open_it}</button>
</form>
</body>
</html>
"""
