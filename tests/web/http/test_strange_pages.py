"""Attacks by a foreign page in a browser that uses Reprise: its requests, frames and sockets read nothing.

Chromium's checks of requests to local addresses are off, since other browsers have none.
"""

import json
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from benchmarks.browser import another
from storage import Storage
from storage.validation import LOCAL
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import serving
from tests.web.visiting import open_tab, visit

SECRET = "Grandmother Wilhelmina"
CHECKS_OFF = "LocalNetworkAccessChecks,PrivateNetworkAccessSendPreflights,BlockInsecurePrivateNetworkRequests"

ATTACK_TIMEOUT = 60_000  # ms

# Returns the texts that it could read, with how it got them. Opens no window: no browser shows its document to another
# origin, whatever the server answers. Without CORS, browsers send JSON as text/plain.
ATTACK = """async ({ target, calls }) => {
  const heard = [];
  const keep = (how, text) => { if (text) heard.push([how, String(text).slice(0, 2000)]); };
  const stream = "gradio_api/queue/data?session_hash=evil";
  const paths = ["", "config", "gradio_api/info", "theme.css", stream, "gradio_api/token"];
  for (const path of paths)
    for (const credentials of ["include", "omit"])
      await fetch(target + path, { credentials, signal: AbortSignal.timeout(3000) })
        .then((answer) => answer.text()).then((text) => keep(`get ${path}`, text), () => {});
  for (const path of ["gradio_api/run/predict", "gradio_api/queue/join", "gradio_api/component_server/"])
    for (const body of calls)
      for (const [type, mode] of [["application/json", "cors"], ["text/plain", "cors"], ["text/plain", "no-cors"]])
        await fetch(target + path, {
          method: "POST", mode, credentials: "include", body, headers: { "content-type": type },
        }).then((answer) => answer.text()).then((text) => keep(`post ${path}`, text), () => {});
  const upload = new FormData();
  upload.append("files", new Blob(["x"]), "evil.wav");
  await fetch(target + "gradio_api/upload", { method: "POST", body: upload, credentials: "include" })
    .then((answer) => answer.text()).then((text) => keep("upload", text), () => {});
  const frame = document.body.appendChild(document.createElement("iframe"));
  const loaded = new Promise((over) => { frame.onload = over; setTimeout(over, 3000); });
  frame.src = target;
  await loaded;
  keep("frame", (() => { try { return frame.contentDocument?.body.innerText; } catch { return ""; } })());
  const form = document.body.appendChild(document.createElement("form"));
  const action = target + "gradio_api/run/predict";
  Object.assign(form, { method: "post", action, enctype: "text/plain", target: "sink" });
  const field = form.appendChild(document.createElement("input"));
  Object.assign(field, { name: calls[0].slice(0, -1) + ',"x":"', value: '"}' });
  const sink = document.body.appendChild(document.createElement("iframe"));
  sink.name = "sink";
  form.submit();
  await new Promise((over) => {
    const script = document.head.appendChild(document.createElement("script"));
    script.onerror = script.onload = over;
    script.src = target + "gradio_api/run/predict";
  });
  await new Promise((over) => {
    const events = new EventSource(target + stream, { withCredentials: true });
    events.onmessage = (event) => keep("events", event.data);
    setTimeout(() => { events.close(); over(); }, 500);
  });
  return heard;
}"""


# `page.evaluate` has no timeout of its own.
BOUNDED_ATTACK = f"""(given) => Promise.race([
  ({ATTACK})(given),
  new Promise((_, fail) => setTimeout(() => fail(new Error("the attack does not end")), {ATTACK_TIMEOUT})),
])"""


class ForeignSite(socketserver.ThreadingTCPServer):
    """A site with an empty page, in which the test runs scripts."""

    daemon_threads = True
    allow_reuse_address = True


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Kittens</title><body>")

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress logging."""


@contextmanager
def foreign_site() -> Iterator[int]:
    with ForeignSite(("127.0.0.1", 0), EmptyPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def open_browser(chromium: Browser) -> Iterator[Browser]:
    names = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with another(chromium, names, f"--disable-features={CHECKS_OFF}") as opened:
        yield opened


def deletion(page: Page, voice_id: str) -> str:
    """Return the body of the call that deletes a voice."""
    function = page.evaluate(
        """() => {
            const { components, dependencies } = window.gradio_config;
            const library = components.find(({ props }) => props.elem_id === "rp-library").id;
            const removes = ([part, event]) => part === library && event === "remove";
            return dependencies.find(({ targets }) => targets.some(removes)).id;
        }"""
    )
    return json.dumps(
        {"data": ["", None], "event_data": {"id": voice_id}, "fn_index": function, "session_hash": "evil"}
    )


def run_attacks(context: BrowserContext, origins: Sequence[str], target: str, calls: Sequence[str]) -> list[Any]:
    """Run the attack on a page of each origin; return everything they could read of the target."""
    read = []
    for origin in origins:
        page = context.new_page()
        page.goto(origin)
        read += page.evaluate(BOUNDED_ATTACK, {"target": target, "calls": list(calls)})
        page.close()
    return read


def test_foreign_page_reads_nothing_from_the_library(open_browser: Browser, tmp_path: Path) -> None:
    with Storage.open(tmp_path / "voices.db") as storage, serving() as serve, foreign_site() as port:
        kept = storage.voices.add(voice(SECRET))
        engine = FakeEngine()
        link = serve(engine, storage, "machine")
        target = link.partition("?")[0]
        server = urlsplit(target).port
        with visit(open_browser, link) as page:
            # The browser has the cookie by now, and sends it with requests from pages of the same host.
            with page.expect_request("**/run/predict") as asked:
                open_tab(page, "Library")
            call = str(asked.value.post_data)
            assert "session_hash" in call
            origins = [f"http://{name}:{port}" for name in ("evil.example", "127.0.0.1")]
            delete = deletion(page, kept.id)
            read = run_attacks(page.context, origins, target, [call, delete])  # one for all, which are refused unread
            rebound = page.context.new_page()
            for name in ("rebound.example", "x.localhost"):
                answer = rebound.goto(f"http://{name}:{server}/")
                assert answer is not None
                assert answer.status == 421
            assert SECRET not in json.dumps(read)
            assert read == []
            assert [each.name for each in storage.voices.list(owner=LOCAL)] == [SECRET]
            assert page.request.post(f"{target}gradio_api/run/predict", data=json.loads(delete)).ok
            assert storage.voices.list(owner=LOCAL) == [], "the page itself can make the call that others tried"
        assert storage.history.page(owner=LOCAL).total == 0
        assert engine.speeches == []
