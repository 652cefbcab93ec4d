"""The language chosen on the page, stored in a cookie (static/shell/switches.js)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.requests import cookie_parser

COOKIE = "reprise_language"
_CODE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{2,8})?")

RawHeaders = list[tuple[bytes, bytes]]


def with_chosen_language(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return a request's headers with the chosen language in place of the browser's."""
    known = list(headers)
    cookies = b"; ".join(value for name, value in known if name == b"cookie").decode("latin-1")
    code = cookie_parser(cookies).get(COOKIE, "")
    if not _CODE.fullmatch(code):
        return known
    return [*(header for header in known if header[0] != b"accept-language"), (b"accept-language", code.encode())]
