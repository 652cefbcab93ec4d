"""The start-up token of a local-only server: part of the link printed at startup, then replaced by a cookie.

Requests without it get a page with a form for the token: those of other users of this machine, of proxies that appear
local, and of pages whose host name points to this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from itsdangerous import BadSignature, TimestampSigner
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

if TYPE_CHECKING:
    from web.ui.i18n import Texts

TOKEN_PARAMETER = "token"  # query parameter of the link
DAYS = 30
_KNOWN = b"opened here"


class StartupToken:
    """The token, and the signed cookie of browsers that presented it.

    The cookie stays valid after a restart. Each visit of the page renews it for DAYS.
    """

    def __init__(self, secret: bytes) -> None:
        """secret: the server's persistent secret."""
        self.value = secrets.token_urlsafe(24)
        self._signer = TimestampSigner(
            secret, salt="reprise.startup", key_derivation="hmac", digest_method=hashlib.sha256
        )

    def link(self, url: str) -> str:
        """Return the page's URL with the token."""
        return f"{url.rstrip('/')}/?{urlencode({TOKEN_PARAMETER: self.value})}"

    def matches(self, given: str) -> bool:
        """Return whether this is the token."""
        return hmac.compare_digest(given.encode(), self.value.encode())

    def cookie(self, scope: Scope) -> dict[str, Any]:
        """Return arguments for `Response.set_cookie` in the response to a request."""
        value = self._signer.sign(_KNOWN).decode()
        return {"key": _cookie(scope), "value": value, "max_age": DAYS * 86400, "httponly": True, "samesite": "lax"}

    def admits(self, scope: Scope) -> bool:
        """Return whether a request comes from a browser that has presented the token."""
        cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
        try:
            return self._signer.unsign(cookies.get(_cookie(scope), ""), max_age=DAYS * 86400) == _KNOWN
        except BadSignature:
            return False


def _cookie(scope: Scope) -> str:
    """Return the cookie's name. It contains the server's port, because cookies ignore ports."""
    port = (scope.get("server") or ("", 0))[1] or 0
    return f"reprise-{port}"


_LOCKED_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 ui-sans-serif, system-ui, sans-serif }
body { max-width: 30rem; margin: 15vh auto; padding: 0 1.5rem }
form { display: flex; gap: .5rem; margin-top: 1.5rem }
input { flex: 1; min-width: 0 }
input, button { font: inherit; padding: .5rem .75rem; border-radius: .5rem; border: 1px solid #8888 }
"""


def locked_page(texts: Texts) -> str:
    """Return the HTML page that asks for the token."""
    title, text, token, open_it = (escape(texts(f"locked.{key}")) for key in ("title", "text", "token", "open"))
    return f"""<!doctype html>
<html lang="{escape(texts.language)}">
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
