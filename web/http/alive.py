"""The route by which a page detects that its server is down or was restarted."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from web.gradio_internals import is_admitted

PATH = "/reprise/alive"


class AliveEndpoint:
    """Responds to every request with:

    process     a random id of this process
    page        the version of its page: open pages of the same version can continue with this process
    admitted    whether the visitor is logged in, or the server has no accounts
    """

    def __init__(self, version: str) -> None:
        """version: the page's (`page_version`)."""
        self._process, self._page = secrets.token_hex(8), version

    def routes(self) -> list[Route]:
        """Return the routes for Gradio's `launch`."""
        return [Route(PATH, self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> JSONResponse:
        found = {"process": self._process, "page": self._page, "admitted": is_admitted(request)}
        return JSONResponse(found, headers={"Cache-Control": "no-store"})
