"""Whether a request comes from this machine, as far as the connection tells."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from web.http.hosts import is_loopback

LOCAL = "reprise.local"  # in the scope: whether `is_plainly_local`, for `web.identity.owners`
# What proxies say of themselves. Some say nothing: those speak HTTP/1.0, or do not have the start-up token.
_FORWARDED = ("forwarded", "via", "x-real-ip", "x-original-host", "cf-connecting-ip", "true-client-ip")
_PREFIX = "x-forwarded-"


def is_plainly_local(scope: Scope, headers: Headers) -> bool:
    """Whether a program on this machine sent this to this machine, with nothing in between that it shows."""
    peer = (scope.get("client") or ("",))[0]
    forwarded = any(name in _FORWARDED or name.startswith(_PREFIX) for name in headers)
    old = scope.get("http_version") == "1.0"
    return is_loopback(peer) and is_loopback(headers.get("host", "")) and not forwarded and not old
