"""Security headers of responses: content types, referrers, frames, and the Content-Security-Policy.

Gradio needs two exceptions from a strict policy: it runs the scripts of `gr.HTML` through `new Function`
('unsafe-eval'), and its components use inline styles ('unsafe-inline' for styles). Its own inline scripts are allowed
individually by hash.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Callable
from html.parser import HTMLParser

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HUB = "https://huggingface.co"
_LEVEL = 5  # gzip level: compresses 280 kB to 36 kB in 4 ms


class ResponseHeaders:
    """Sets the headers. framed: whether the Hugging Face Hub may show the page in a frame, as it does for Spaces."""

    def __init__(self, *, framed: bool = False) -> None:
        self._framed = framed

    def apply(self, headers: MutableHeaders, *, encrypted: bool, trusted: bool) -> None:
        """Set a response's headers in place.

        encrypted: whether the browser's connection is. trusted: whether browsers treat the page as a secure context.
        """
        for name in [name for name in headers if name.lower().startswith("access-control-")]:
            del headers[name]  # pages of other origins may not read anything
        headers["X-Content-Type-Options"] = "nosniff"
        headers.setdefault("Referrer-Policy", "same-origin")
        headers.setdefault("Content-Security-Policy", f"default-src 'none'; {self._ancestors}")
        headers.setdefault("Permissions-Policy", "microphone=(self), camera=(), geolocation=(), payment=(), usb=()")
        headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if not self._framed:
            headers["X-Frame-Options"] = "DENY"
        if trusted and not self._framed:  # elsewhere, browsers log a warning about it
            headers["Cross-Origin-Opener-Policy"] = "same-origin"
        self._restrict_cookies(headers, encrypted=encrypted)

    def page_policy(self, html: str) -> str:
        """Return the Content-Security-Policy for Gradio's page."""
        hashes = " ".join(f"'sha256-{_digest(script)}'" for script in inline_scripts(html))
        hub = f" {_HUB}" if self._framed else ""
        return "; ".join(
            (
                "default-src 'self'",
                f"script-src 'self' blob: 'unsafe-eval' {hashes}".rstrip(),
                "style-src 'self' 'unsafe-inline'",
                "img-src 'self' data: blob:",
                "media-src 'self' data: blob:",
                "font-src 'self' data:",
                f"connect-src 'self' data: blob:{hub}",
                "worker-src 'self' blob:",
                "object-src 'none'",
                "base-uri 'self'",
                "form-action 'self'",
                self._ancestors,
            )
        )

    @property
    def _ancestors(self) -> str:
        return f"frame-ancestors {_HUB} https://*.huggingface.co" if self._framed else "frame-ancestors 'none'"

    def _restrict_cookies(self, headers: MutableHeaders, *, encrypted: bool) -> None:
        """Restrict cookies to the page itself and, if it is served over https, to that.

        Of Gradio's two login cookies, one is also sent when the page is embedded, the other one also over http.
        """
        cookies = headers.getlist("set-cookie")
        del headers["set-cookie"]
        for text in cookies:
            headers.append("set-cookie", self._restrict(text, secure=encrypted or self._framed))

    def _restrict(self, text: str, *, secure: bool) -> str:
        parts = [part.strip() for part in text.split(";")]
        kept = [part for part in parts if part.partition("=")[0].strip().lower() not in ("samesite", "partitioned")]
        if secure and "secure" not in map(str.lower, kept):
            kept.append("Secure")
        return "; ".join([*kept, *(["SameSite=None", "Partitioned"] if self._framed else ["SameSite=Lax"])])


class PagePolicyMiddleware:
    """Adds scripts to the `<head>` of HTML pages, sets their Content-Security-Policy and Cache-Control, and compresses
    them. Gradio only compresses paths that look like files.

    head: returns HTML for the start of `<head>`, given the browser's Accept-Language header.
    """

    def __init__(self, app: ASGIApp, headers: ResponseHeaders, head: Callable[[str], str]) -> None:
        self._app, self._headers, self._head = app, headers, head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests on. HTML responses are buffered until they are complete."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        markup = bytearray()

        async def send_page(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_page(message):
                start = message
                return
            if start is None:
                await send(message)
                return
            markup.extend(message.get("body", b""))
            if not message.get("more_body", False):
                request, headers = Headers(scope=scope), MutableHeaders(scope=start)
                page = self._page(markup.decode("utf-8", "replace"), request)
                body = page.encode()
                if body and "gzip" in request.get("accept-encoding", ""):
                    body = gzip.compress(body, _LEVEL, mtime=0)
                    headers["Content-Encoding"] = "gzip"
                headers["Content-Security-Policy"] = self._headers.page_policy(page)
                headers["Content-Length"] = str(len(body))
                # Else Varnish keeps the page for two minutes, and CDNs rewrite scripts, which the policy then blocks.
                headers.setdefault("Cache-Control", "private, no-cache, no-transform")
                headers.add_vary_header("Accept-Language, Accept-Encoding, Cookie")
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, send_page)

    def _page(self, markup: str, request: Headers) -> str:
        """Insert the head before Gradio's own scripts: module scripts run in document order."""
        return markup.replace("<head>", f"<head>{self._head(request.get('accept-language', ''))}", 1)


def _is_page(start: Message) -> bool:
    """Return whether this is HTML without a policy of its own; downloads have one."""
    headers = MutableHeaders(scope=start)
    return headers.get("content-type", "").startswith("text/html") and "content-security-policy" not in headers


def inline_scripts(html: str) -> list[str]:
    """Return the texts of a page's inline scripts, in order."""
    reader = _Scripts()
    reader.feed(html)
    reader.close()
    return reader.found


class _Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and not any(name == "src" for name, _ in attrs):
            self._inside = True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
