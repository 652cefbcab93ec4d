"""A page with a single component, served by Gradio and opened in Chromium."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
from playwright.sync_api import Browser, Page

from web.folders import private_folder
from web.http.gate import GatePolicy
from web.http.hosts import AllowedHosts
from web.http.routes import AllowedRoutes
from web.launch import launch
from web.ui.i18n import Translations
from web.uploads.endpoint import UploadEndpoint

# A host that is neither localhost nor https, like another computer in the local network.
PLAIN_HTTP_HOST = "voices.example"
TIMEOUT = 60_000  # ms: generous, since the machine may be busy


@contextmanager
def serve_component(build: Callable[[str], None]) -> Iterator[str]:
    """Yield the URL of a page that `build` fills. `build` gets the folder of uploads."""
    with private_folder() as folder:
        with gr.Blocks(analytics_enabled=False) as demo:
            build(folder)
        policy = GatePolicy(AllowedHosts("127.0.0.1", [PLAIN_HTTP_HOST]), AllowedRoutes())
        url = launch(demo, policy=policy, routes=UploadEndpoint(Path(folder), Translations.load()).routes())
        try:
            yield url
        finally:
            demo.close(verbose=False)


@contextmanager
def open_page(chromium: Browser, url: str, **context: Any) -> Iterator[Page]:
    """Yield the page in a new browser context. Fails on errors of its scripts."""
    visitor = chromium.new_context(**context)
    visitor.set_default_timeout(TIMEOUT)
    page = visitor.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.goto(url)
    yield page
    visitor.close()
    assert troubles == []
