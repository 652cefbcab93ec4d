"""Host names of this server, and detection of local requests.

With DNS rebinding, a web site resolves its own host name to this machine's address and can then read this server's
responses. Its requests still have its own name in `Host`. Numeric addresses cannot be rebound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from engine.errors import InvalidOption

IS_LOCAL = "reprise.local"  # key in the ASGI scope: the result of `is_local_request`
# Headers that proxies add. Requests of proxies that add none use HTTP/1.0 or lack the start-up token.
_FORWARDED = ("forwarded", "via", "x-real-ip", "x-original-host", "cf-connecting-ip", "true-client-ip")
_PREFIX = "x-forwarded-"
_LOCAL_NAME = "localhost"
_UNSPECIFIED = ("0.0.0.0", "::")  # a request to one of these goes to this machine
_URL = re.compile(rb"https?://([^/]*)", re.IGNORECASE)  # as a request's target: its start
_BRACKETED = re.compile(r"\[([0-9a-f:.]+)\](?::[0-9]+)?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class AllowedHosts:
    """The names of one server: loopback names, the bound address, and the names in `allowed`."""

    def __init__(self, bound: str, allowed: Iterable[str] = ()) -> None:
        """bound: the address that the server listens on. allowed: further names; `.example.org` allows its subdomains.

        Raises InvalidOption for an invalid name.
        """
        names = [_checked(name) for name in allowed]
        self._names = {_LOCAL_NAME, host_name(bound), *(name for name in names if not name.startswith("."))}
        self._suffixes = tuple(name for name in names if name.startswith("."))
        self._any_address = not is_loopback(bound)

    def __contains__(self, host: str) -> bool:
        """Return whether a `Host` header names this server. The port is ignored."""
        name = host_name(host)
        if name in self._names or (name.endswith(self._suffixes) and _is_name(name)):
            return True
        return is_loopback(name) or (self._any_address and _is_address(name))


def check_names(allowed: Iterable[str]) -> None:
    """Raise InvalidOption for an invalid name, before a model is loaded. Empty names are ignored."""
    for name in filter(None, allowed):
        _checked(name)


def check_clip_hosts(hosts: Iterable[str]) -> None:
    """Raise InvalidOption for a host that is in no URL, before a model is loaded. Empty ones are ignored.

    Unlike the names of this server, hosts of clips may have a port, and none stands for its subdomains.
    """
    for host in filter(None, map(str.strip, hosts)):
        if not _is_host_of_urls(host):
            raise InvalidOption(f"“{host}” is not a valid host of clips: write it as example.org or example.org:8443.")


def host_name(host: str) -> str:
    """Return the name or address in a `Host` header, in lower case, without port and brackets."""
    text = host.strip().lower()
    if match := _BRACKETED.fullmatch(text):
        return match[1]
    name, _, port = text.rpartition(":")
    return (name if name and ":" not in name and port.isdigit() else text).rstrip(".")


def origin_host(origin: str) -> str:
    """Return `host[:port]` of an `Origin` header, without the scheme's default port; "" if it is not HTTP(S)."""
    scheme, found, rest = origin.strip().lower().partition("://")
    return without_port(rest, scheme) if found and scheme in _DEFAULT_PORTS else ""


def without_port(host: str, scheme: str) -> str:
    """Return `host[:port]` in lower case, without the scheme's default port."""
    return host.strip().lower().removesuffix(":" + _DEFAULT_PORTS.get(scheme, ""))


def is_loopback(host: str) -> bool:
    """Return whether a name or address is a loopback one."""
    name = host_name(host) if not _is_address(host) else host
    return name == _LOCAL_NAME or (_is_address(name) and ip_address(name).is_loopback)


def is_local_request(scope: Scope, headers: Headers) -> bool:
    """Return whether this request comes from this machine, is addressed to it, and shows no sign of a proxy."""
    peer = (scope.get("client") or ("",))[0]
    forwarded = any(name in _FORWARDED or name.startswith(_PREFIX) for name in headers)
    old = scope.get("http_version") == "1.0"
    url = _URL.match(scope.get("raw_path") or b"")  # clients send those to proxies only
    host = headers.get("host", "")
    here = is_loopback(host) or host_name(host) in _UNSPECIFIED
    return is_loopback(peer) and here and not forwarded and not old and not url


def with_target_as_path(scope: Scope) -> Scope:
    """Return a request of a URL, which some proxies send, as one of its path at its host (RFC 9112, 3.2.2).

    `raw_path` stays the URL. Other requests are returned unchanged.
    """
    target = scope.get("raw_path") or b""
    start = _URL.match(target)
    if start is None:
        return scope
    path = target[start.end() :] or b"/"
    headers = [(b"host", start[1]), *(header for header in scope["headers"] if header[0] != b"host")]
    return {**scope, "path": unquote(path.decode("ascii")), "headers": headers}


def is_local(scope: Mapping[str, Any]) -> bool:
    """Return whether the gate classified a request as local."""
    return scope.get(IS_LOCAL) is True


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _checked(name: str) -> str:
    cleaned = name.strip().lower().rstrip(".")
    if not _is_name(cleaned.removeprefix(".")):
        raise InvalidOption(
            f"“{name}” is not a valid host name: write it as voices.example.org, without scheme and port."
        )
    return cleaned


def _is_host_of_urls(host: str) -> bool:
    """Return whether `host[:port]` can be written in a URL. International names are allowed."""
    try:
        parts = urlsplit(f"https://{host}/")
        return parts.netloc == host and parts.port != 0 and _is_name(host_name(host).encode("idna").decode())
    except ValueError:
        return False


def _is_name(text: str) -> bool:
    """Return whether a text in lower case is a host name or an address."""
    letters = text.replace("-", "").replace(".", "").replace("_", "")
    named = letters.isalnum() and letters.isascii() and ".." not in text and not text.startswith(".")
    return named or _is_address(text)
