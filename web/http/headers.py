"""What every answer tells the browser: not to guess types, whom to show it to, who may frame it, which scripts run.

Gradio needs two things that a strict policy forbids: it runs the scripts of `gr.HTML` through `new Function`
('unsafe-eval'), and its components style themselves in the markup ('unsafe-inline' for styles). Its own inline scripts
are allowed one by one, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser

from starlette.datastructures import MutableHeaders

_HUB = "https://huggingface.co"


class AnswerHeaders:
    """Sets them. `framed`: whether the Hub's page may show this one in a frame, as it does with Spaces."""

    def __init__(self, *, framed: bool = False) -> None:
        self._framed = framed

    def apply(self, headers: MutableHeaders, *, trusted: bool) -> None:
        """Changes an answer's headers in place. `trusted`: as browsers see the origin, by https or as this machine."""
        for name in [name for name in headers if name.lower().startswith("access-control-")]:
            del headers[name]  # no page of another origin is to read anything
        headers["X-Content-Type-Options"] = "nosniff"
        headers.setdefault("Referrer-Policy", "same-origin")
        headers.setdefault("Content-Security-Policy", f"default-src 'none'; {self._ancestors}")
        headers.setdefault("Permissions-Policy", "microphone=(self), camera=(), geolocation=(), payment=(), usb=()")
        headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if not self._framed:
            headers["X-Frame-Options"] = "DENY"
        if trusted and not self._framed:  # elsewhere browsers complain of it
            headers["Cross-Origin-Opener-Policy"] = "same-origin"
        self._tame_cookies(headers)

    def page_policy(self, html: str) -> str:
        """The Content-Security-Policy of Gradio's page."""
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

    def _tame_cookies(self, headers: MutableHeaders) -> None:
        """Gradio's log-in cookie goes to whoever embeds the page; it is for the page itself."""
        cookies = headers.getlist("set-cookie")
        if cookies:
            del headers["set-cookie"]
        for text in cookies:
            headers.append("set-cookie", self._tamed(text))

    def _tamed(self, text: str) -> str:
        parts = [part.strip() for part in text.split(";")]
        kept = [part for part in parts if part.partition("=")[0].strip().lower() not in ("samesite", "partitioned")]
        if not self._framed:
            return "; ".join([*kept, "SameSite=Lax"])
        secure = [] if any(part.lower() == "secure" for part in kept) else ["Secure"]
        return "; ".join([*kept, *secure, "SameSite=None", "Partitioned"])


def inline_scripts(html: str) -> list[str]:
    """The texts of a page's inline scripts, in order."""
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
