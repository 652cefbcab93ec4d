"""The enabled routes: the Gradio routes that the page uses, and those of the API.

Gradio's other routes, which convert recordings, fetch URLs and more, are disabled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from starlette.routing import Route

from web.downloads.links import PATH_PREFIX
from web.http import alive
from web.ui import modules

RouteKind = Literal[
    "page", "static", "start", "call", "stream", "upload", "login", "hub_sign_in", "logout", "file", "api"
]


class _Route(NamedTuple):
    methods: tuple[str, ...] | None  # None: all
    path: str  # a regular expression
    kind: RouteKind


_GET = ("GET", "HEAD")
_GRADIO_API = "/gradio_api"
_ROUTES = (
    _Route(_GET, r"/", "page"),
    _Route(_GET, r"/(assets|static)/(?!.*\.\.)[\w./-]{1,200}", "static"),
    _Route(_GET, rf"{re.escape(modules.PLACE)}[0-9a-f]{{16}}/[\w/-]{{1,100}}\.(js|woff2)", "static"),
    _Route(_GET, re.escape(alive.PATH), "static"),
    _Route(_GET, r"/(theme\.css|favicon\.ico|robots\.txt)", "static"),
    _Route(("GET",), rf"{_GRADIO_API}/startup-events", "start"),
    _Route(("GET",), rf"{_GRADIO_API}/queue/data", "stream"),
    _Route(("GET",), rf"{_GRADIO_API}/heartbeat/[0-9a-zA-Z]{{1,64}}", "stream"),
    _Route(("POST",), rf"{_GRADIO_API}/(run/predict|queue/join|component_server)/?", "call"),
    _Route(("POST", "DELETE"), rf"{_GRADIO_API}/upload", "upload"),
    _Route(_GET, rf"{re.escape(PATH_PREFIX)}[\w.-]{{1,2000}}", "file"),
)
# The API's application does its own routing, and refuses the methods that it does not have.
_API_ROUTES = (_Route(None, r"/+v1(/.*)?|(/audio/voices|/mcp|/health(/live|/ready)?|/metrics)/?", "api"),)
_ACCOUNTS = (
    _Route(("POST",), r"/login/?", "login"),
    _Route(("GET",), r"/logout", "logout"),
)
_HUB = (
    _Route(("GET",), r"/login/(huggingface|callback)", "hub_sign_in"),
    _Route(("GET",), r"/logout", "logout"),
)


class AllowedRoutes:
    """The enabled routes of one server."""

    def __init__(self, *, accounts: bool = False, hub: bool = False, api: bool = False, root_path: str = "") -> None:
        """accounts, hub: how visitors log in. api: whether there is an API.

        root_path: the proxy's prefix, which the proxy may or may not strip.
        """
        self._routes = _ROUTES + (_ACCOUNTS if accounts else ()) + (_HUB if hub else ()) + (_API_ROUTES if api else ())
        self._root = root_path.rstrip("/")

    def kind(self, method: str, path: str) -> RouteKind | None:
        """Return the kind of a request; None for an unknown route."""
        # Some proxies strip their root path, others do not; download links have a prefix of their own.
        paths = {path, self.without_root(path)}
        matching = (each for each in self._routes if each.methods is None or method in each.methods)
        return next((each.kind for each in matching if any(re.fullmatch(each.path, known) for known in paths)), None)

    def without_root(self, path: str) -> str:
        """Return a path without the proxy's root path."""
        if path == self._root or path.startswith(self._root + "/"):
            return path.removeprefix(self._root) or "/"
        return path


def with_stripped_paths(routes: Sequence[Route], root_path: str) -> list[Route]:
    """Return routes, those below the proxy's root path also without it.

    Starlette strips the root path from every path, even if the proxy has already done so.
    """
    root = root_path.rstrip("/")
    below = [route for route in routes if root and route.path.startswith(f"{root}/")]
    return [
        *routes,
        *(Route(each.path.removeprefix(root), each.endpoint, methods=list(each.methods or ())) for each in below),
    ]
