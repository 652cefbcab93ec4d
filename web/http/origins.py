"""Which requests come from pages of others. Browsers tell by `Origin` and `Sec-Fetch-Site`; other programs send
neither."""

from __future__ import annotations

from starlette.datastructures import Headers

from web.http.hosts import origin_host, without_port

_OWN = ("same-origin", "none")
_READING = ("GET", "HEAD")


def is_foreign(headers: Headers, *, scheme: str) -> bool:
    """Whether a page of another origin sent this. `scheme`: of the request, as far as the server can tell."""
    origin = headers.get("origin")
    if origin is not None and not _is_own(origin, headers, scheme):
        return True
    return headers.get("sec-fetch-site", "none") not in _OWN


def is_visit(method: str, headers: Headers, *, framed: bool) -> bool:
    """Whether a browser opens this as a page: somebody followed a link, which tells the page with the link nothing.

    `framed`: whether another site's page may show it in a frame.
    """
    places = ("document", "iframe") if framed else ("document",)
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") in places
    return method in _READING and opened and "origin" not in headers


def _is_own(origin: str, headers: Headers, scheme: str) -> bool:
    own = {without_port(host, _scheme(origin)) for name in ("host", "x-forwarded-host") if (host := headers.get(name))}
    if origin_host(origin) not in own:
        return False
    # A proxy may speak https for a server that knows of http only; the other way round is somebody in between.
    return _scheme(origin) == "https" or headers.get("x-forwarded-proto", scheme) != "https"


def _scheme(origin: str) -> str:
    return origin.partition("://")[0].strip().lower()
