"""Who sends a request, as far as the connection tells."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import Scope

from web.http.hosts import is_loopback

LOCAL = "reprise.local"  # in the scope: whether `is_plainly_local`, for `web.visitors.owners`
_NOBODY = "unknown"
# What proxies say of themselves. Some say nothing: those speak HTTP/1.0, or do not have the start-up token.
_FORWARDED = ("forwarded", "via", "x-real-ip", "x-original-host", "cf-connecting-ip", "true-client-ip")
_PREFIX = "x-forwarded-"


def is_plainly_local(scope: Scope, headers: Headers) -> bool:
    """Whether a program on this machine sent this to this machine, with nothing in between that it shows."""
    peer = _peer(scope)
    forwarded = any(name in _FORWARDED or name.startswith(_PREFIX) for name in headers)
    old = scope.get("http_version") == "1.0"
    return is_loopback(peer) and is_loopback(headers.get("host", "")) and not forwarded and not old


def address_of(scope: Scope, headers: Headers, *, proxied: bool = False) -> str:
    """What budgets are counted by: the client's address, of IPv6 the network that a household has.

    `proxied`: whether everything comes through a proxy of the host, which adds the client's address as the last one of
    X-Forwarded-For. Proxies on this machine are heeded by uvicorn.
    """
    address = headers.get("x-forwarded-for", "").rpartition(",")[2].strip() if proxied else ""
    return _household(address or _peer(scope))


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else _NOBODY


def _household(address: str) -> str:
    try:
        known = ip_address(address)
    except ValueError:
        return _NOBODY
    if isinstance(known, IPv6Address):
        if known.ipv4_mapped:
            return str(known.ipv4_mapped)
        return str(ip_network((known, 64), strict=False))
    return str(known)
