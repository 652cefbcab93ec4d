"""The route by which a page detects that its server is down or was restarted."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from web.gradio_internals import is_admitted

PATH = "/reprise/alive"


class AliveEndpoint:
    """Responds to every request with:

    process     a random id of this process
    page        a hash of the page's events and scripts: pages with the same hash can continue with this process
    admitted    whether the visitor is logged in, or the server has no accounts
    """

    def __init__(self, config: Mapping[str, Any], scripts: str) -> None:
        """config: the page's, as Gradio sends it to browsers. scripts: version of the page's modules."""
        self._process = secrets.token_hex(8)
        events = [[event[key] for key in ("id", "targets", "inputs", "outputs")] for event in config["dependencies"]]
        self._page = hashlib.sha256(json.dumps([events, scripts]).encode()).hexdigest()[:16]

    def routes(self) -> list[Route]:
        """Return the routes for Gradio's `launch`."""
        return [Route(PATH, self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> JSONResponse:
        found = {"process": self._process, "page": self._page, "admitted": is_admitted(request)}
        return JSONResponse(found, headers={"Cache-Control": "no-store"})
