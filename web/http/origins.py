"""Detection of cross-origin requests, from `Origin` and `Sec-Fetch-Site`. Only browsers send these headers."""

from __future__ import annotations

from starlette.datastructures import Headers

from web.http.hosts import origin_host, without_port

_OWN = ("same-origin", "none")
_READING = ("GET", "HEAD")


def is_cross_origin(headers: Headers, *, scheme: str) -> bool:
    """Return whether a page of another origin sent this. scheme: the request's, as seen by this server."""
    origin = headers.get("origin")
    if origin is not None and not _is_own(origin, headers, scheme):
        return True
    return headers.get("sec-fetch-site", "none") not in _OWN


def is_navigation(method: str, headers: Headers, *, framed: bool) -> bool:
    """Return whether a browser opens this as a page. Following a link reveals nothing to the linking page.

    framed: whether other sites may show the page in a frame.
    """
    places = ("document", "iframe") if framed else ("document",)
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") in places
    return method in _READING and opened and "origin" not in headers


def browser_scheme(headers: Headers, scheme: str) -> str:
    """Return the scheme of the browser's connection. scheme: the request's, as seen by this server."""
    return _first(headers, "x-forwarded-proto") or scheme


def _first(headers: Headers, name: str) -> str:
    """Return the first value of a header, or "": of those that several proxies add, it is the browser's."""
    return headers.get(name, "").partition(",")[0].strip()


def _is_own(origin: str, headers: Headers, scheme: str) -> bool:
    names = [_first(headers, name) for name in ("host", "x-forwarded-host")]
    own = {without_port(name, _scheme(origin)) for name in names if name}
    if origin_host(origin) not in own:
        return False
    # A proxy may serve https for a server that serves http; the reverse is a downgrade.
    return _scheme(origin) == "https" or browser_scheme(headers, scheme) != "https"


def _scheme(origin: str) -> str:
    return origin.partition("://")[0].strip().lower()
