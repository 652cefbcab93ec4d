"""Gradio's page, with our own part of its head and its Content-Security-Policy, which names Gradio's inline scripts."""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.headers import AnswerHeaders


class PagePolicy:
    """Middleware between Gradio's pages and what compresses them: it has to read their markup."""

    def __init__(self, app: ASGIApp, headers: AnswerHeaders, head: Callable[[str], str]) -> None:
        """`head`: HTML for the start of a page's `<head>`, from the browser's Accept-Language header."""
        self._app, self._headers, self._head = app, headers, head

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
                page = self._page(markup.decode("utf-8", "replace"), Headers(scope=scope))
                headers = MutableHeaders(scope=start)
                headers["Content-Security-Policy"] = self._headers.page_policy(page)
                headers["Content-Length"] = str(len(body := page.encode()))
                headers.add_vary_header("Accept-Language")
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, told)

    def _page(self, markup: str, asked: Headers) -> str:
        """With our scripts before Gradio's own: in a page, scripts of type "module" run in their order."""
        return markup.replace("<head>", f"<head>{self._head(asked.get('accept-language', ''))}", 1)


def _is_page(start: Message) -> bool:
    """Whether it is HTML that has no policy of its own, as the files of links have."""
    headers = MutableHeaders(scope=start)
    return headers.get("content-type", "").startswith("text/html") and "content-security-policy" not in headers
