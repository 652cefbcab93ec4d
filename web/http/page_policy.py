"""The Content-Security-Policy of the page itself, which names the inline scripts that Gradio wrote into it."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.headers import AnswerHeaders


class PagePolicy:
    """Middleware between Gradio's pages and what compresses them: it has to read their markup."""

    def __init__(self, app: ASGIApp, headers: AnswerHeaders) -> None:
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on; an answer of HTML is held back until all of it is there."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        markup = bytearray()

        async def told(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_page(message):
                start = message
                return
            if start is None:
                await send(message)
                return
            markup.extend(message.get("body", b""))
            if not message.get("more_body", False):
                policy = self._headers.page_policy(markup.decode("utf-8", "replace"))
                MutableHeaders(scope=start)["Content-Security-Policy"] = policy
                await send(start)
                await send({"type": "http.response.body", "body": bytes(markup)})

        await self._app(scope, receive, told)


def _is_page(start: Message) -> bool:
    """Whether it is HTML that has no policy of its own, as the files of links have."""
    headers = MutableHeaders(scope=start)
    return headers.get("content-type", "").startswith("text/html") and "content-security-policy" not in headers
