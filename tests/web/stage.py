"""One component alone on a page of its own, served by real Gradio and seen by Chromium."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
from playwright.sync_api import Browser, Page

from web.http.gate import GatePolicy
from web.http.hosts import AllowedHosts
from web.http.routes import AllowedRoutes
from web.http.upload_endpoint import UploadEndpoint
from web.serve import launch, private_folder

# Somewhere that is neither localhost nor https, as a computer in the same house is.
PLAIN_HTTP_HOST = "voices.example"
PATIENCE = 60_000  # ms: a busy machine is slow, not wrong


@contextmanager
def served(build: Callable[[str], None]) -> Iterator[str]:
    """The URL of a page that `build` fills; it is given the folder of uploads."""
    with private_folder() as folder:
        with gr.Blocks(analytics_enabled=False) as demo:
            build(folder)
        policy = GatePolicy(AllowedHosts("127.0.0.1", [PLAIN_HTTP_HOST]), AllowedRoutes())
        url = launch(demo, policy=policy, routes=UploadEndpoint(Path(folder)).routes())
        try:
            yield url
        finally:
            demo.close(verbose=False)


@contextmanager
def opened(chromium: Browser, url: str, **context: Any) -> Iterator[Page]:
    """The page in a browser of its own. Fails when its scripts do."""
    visitor = chromium.new_context(**context)
    visitor.set_default_timeout(PATIENCE)
    page = visitor.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.goto(url)
    yield page
    visitor.close()
    assert troubles == []
