"""Whether Gradio has let somebody in. It keeps that to itself: this is the one place that looks."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request


def is_admitted(request: Request) -> bool:
    """Whether the server has no accounts, or the request is of somebody who logged in, as Gradio's routes see it."""
    app: Any = request.scope["app"]
    if app.auth is None:
        return True
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    token = next(filter(None, map(request.cookies.get, names)), None)
    return app.tokens.get(token) is not None
