"""The route by which a page detects that its server is down or was restarted."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from web.gradio_internals import is_admitted
from web.http.startup_token import StartupToken

PATH = "/reprise/alive"


class AliveEndpoint:
    """Responds to every request with:

    process     a random id of this process
    page        the version of its page: open pages of the same version can continue with this process
    admitted    whether the visitor may use the page: is logged in if there are accounts, and has presented the start-up
                token if there is one
    """

    def __init__(self, version: str, token: StartupToken | None = None) -> None:
        """version: the page's (`page_version`). token: the start-up token of a local-only server."""
        self._process, self._page, self._token = secrets.token_hex(8), version, token

    def routes(self) -> list[Route]:
        """Return the routes for Gradio's `launch`."""
        return [Route(PATH, self._answer, methods=["GET"])]

    async def _answer(self, request: Request) -> JSONResponse:
        admitted = is_admitted(request) and (self._token is None or self._token.admits(request.scope))
        found = {"process": self._process, "page": self._page, "admitted": admitted}
        return JSONResponse(found, headers={"Cache-Control": "no-store"})
