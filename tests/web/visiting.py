"""Helpers that use the page in a browser."""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import APIResponse, Browser, Locator, Page, Route, ViewportSize, expect

# ms: generous, since the machine may be busy.
TIMEOUT = int(os.environ.get("REPRISE_TEST_TIMEOUT", 60_000))
expect.set_options(timeout=TIMEOUT)


SERIOUS = ("serious", "critical")  # impacts, as axe names them


SIZE = ViewportSize(width=1280, height=720)
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# Pages free for reuse, by browser and whether they have a fake clock.
_idle: dict[tuple[Browser, bool], list[Page]] = {}


@contextmanager
def visit(
    chromium: Browser, url: str, *, clock: bool = False, viewport: ViewportSize = SIZE, **context: Any
) -> Iterator[Page]:
    """Yield a page of a new visitor; `context` as for Playwright's `new_context`. clock: install a fake clock.

    The visitor prefers reduced motion, since drawing each frame of a waveform takes most of the time of playback.
    The page of an earlier visit is reset and reused where possible, because parsing its scripts takes half of a visit's
    processor time. Fails on errors of the page's scripts, which requests to other servers are: see `chromium`.
    """
    idle, usual = _idle.setdefault((chromium, clock), []), not context
    page = idle.pop() if idle and usual else _new_page(chromium, clock, context)
    page.set_viewport_size(viewport)
    troubles: list[str] = []
    listeners: dict[Any, Callable[[Any], None]] = {
        "pageerror": lambda error: troubles.append(str(error)),
        "console": lambda message: troubles.append(message.text) if message.type == "error" else None,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        page.goto(url)
        expect(page.locator("#rp-speak")).to_be_visible()
        yield page
        assert not troubles, troubles
    except BaseException:
        page.context.close()
        raise
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    if usual and not page.is_closed():
        _reset(page)
        idle.append(page)
    else:
        page.context.close()


def _new_page(chromium: Browser, clock: bool, context: dict[str, Any]) -> Page:
    visitor = chromium.new_context(**{"reduced_motion": "reduce", **context})
    visitor.set_default_timeout(TIMEOUT)
    if clock:
        visitor.clock.install()
    return visitor.new_page()


def _reset(page: Page) -> None:
    """Clear a visitor's state. The page stays on its server, so that its process, with the parsed scripts, is kept."""
    for other in page.context.pages:
        if other != page:
            other.close()
    page.unroute_all()
    page.goto(urljoin(page.url, "/reprise/alive"))
    page.evaluate("localStorage.clear(), sessionStorage.clear()")
    page.context.clear_cookies()
    page.context.clear_permissions()
    page.mouse.move(0, 0)


def violations(
    page: Page,
    context: str | None = None,
    impacts: tuple[str, ...] | None = None,
    rules: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> list[str]:
    """Return axe's violations in `context` (a selector), of `impacts`, by `rules` (default: all but `without`).

    Waits for animations to end first, because fading text has too little contrast.
    """
    page.wait_for_function(
        "document.getAnimations().every(a => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)"
    )
    options: dict[str, Any] = {
        "resultTypes": ["violations"],
        "rules": {rule: {"enabled": False} for rule in without},
        "preload": {"assets": ["media"]},  # no rule that is used reads the styles, which takes a tenth of a second
    }
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    # Only what is used: reading all results in Python takes as long as the check.
    run = "([context, options]) => axe.run(context, options).then(({ violations }) => violations)"
    return [
        f"{found['id']}: {node['html'][:200]} {node.get('failureSummary')}"
        for found in page.evaluate(run, [context or "html", options])
        if impacts is None or found["impact"] in impacts
        for node in found["nodes"]
    ]


@contextmanager
def hold_response(page: Page, containing: str, asking: Callable[[], object], *, every: bool = False) -> Iterator[None]:
    """Call `asking` and hold back the first response that contains `containing` until the block ends.

    every: hold back all responses that contain it.
    """
    held: list[tuple[Route, APIResponse]] = []
    released = False
    answers = "**/gradio_api/run/**"

    def hold(route: Route) -> None:
        answer = route.fetch()
        if not released and containing in answer.text() and (every or not held):
            held.append((route, answer))
        else:
            route.fulfill(response=answer)

    page.route(answers, hold)
    asking()
    end = time.monotonic() + TIMEOUT / 1000
    while not held:
        assert time.monotonic() < end, f"no response contains {containing}"
        page.wait_for_timeout(50)
    yield
    released = True  # responses that are still being fetched must not be held back for ever
    for route, answer in held:
        route.fulfill(response=answer)
    page.unroute_all(behavior="wait")


@contextmanager
def refuse_event(page: Page, containing: str, asking: Callable[[], object]) -> Iterator[None]:
    """Call `asking`, and refuse the first event whose request contains `containing` when the block ends."""
    held: list[Route] = []
    events = "**/gradio_api/run/**"

    def hold(route: Route) -> None:
        is_meant = not held and containing in (route.request.post_data or "")
        held.append(route) if is_meant else route.fallback()

    page.route(events, hold)
    asking()
    end = time.monotonic() + TIMEOUT / 1000
    while not held:
        assert time.monotonic() < end, f"no request contains {containing}"
        page.wait_for_timeout(50)
    yield
    held[0].fulfill(status=304)  # a browser would report statuses from 400 on as errors on the console
    page.unroute(events, hold)


def player(page: Page) -> dict[str, Any]:
    stats: dict[str, Any] = page.evaluate("window.reprisePlayer.stats")
    return stats


def wait_for(page: Page, condition: str) -> None:
    """Wait for a condition on `player`, polled ten times a second instead of on each frame."""
    given = f"(() => {{ const player = window.reprisePlayer.stats; return {condition}; }})()"
    page.wait_for_function(given, polling=100)


# These helpers find what they use by its id: by role or label, Playwright reads names and labels of the whole page.


def picker(page: Page) -> Locator:
    return page.locator("#rp-picker input")


def pick(page: Page, name: str) -> None:
    picker(page).click()
    page.locator("#rp-picker [role=option]", has_text=name).click()
    expect(picker(page)).to_have_value(name)


def speak(page: Page, text: str) -> None:
    page.locator("#rp-text textarea").fill(text)
    page.locator("#rp-speak").click()


def open_tab(page: Page, name: str) -> None:
    tab = page.locator("#rp-tabs [role=tab]").get_by_text(name, exact=True)
    if tab.is_visible():
        tab.click()
    else:  # on a phone, some tabs are in a menu
        page.get_by_role("button", name="More tabs").click()
        page.locator(".overflow-dropdown").get_by_text(name, exact=True).click()
    expect(tab).to_have_attribute("aria-selected", "true")


def open_settings(page: Page) -> None:
    """Open the settings of Speak; wait until they keep input, since Gradio refills components after showing them."""
    page.locator("#rp-advanced button").first.click()
    seed, entered = page.locator("#rp-seed input"), json.dumps('"rp-seed":"0"')[1:-1]
    while entered not in page.evaluate("JSON.stringify({ ...sessionStorage })"):
        seed.fill("")
        seed.fill("0")
        page.wait_for_timeout(200)
    seed.fill("")


def finish_deletions(page: Page) -> None:
    """Apply pending deletions as on leaving the page, instead of waiting until undo expires."""
    page.evaluate("dispatchEvent(new Event('pagehide'))")


def drop_late_timers(page: Page) -> None:
    """Let what waits for half a minute wait for ever: items whose deletion is not answered then stay hidden."""
    page.evaluate(
        """() => {
            const { setTimeout } = window;
            window.setTimeout = (act, ms, ...more) => (ms === 30_000 ? 0 : setTimeout(act, ms, ...more));
        }"""
    )


def upload(page: Page, *files: Path) -> None:
    """Add clips to the new voice, and wait until they are ready."""
    page.locator(".rp-file").set_input_files(files)
    expect(page.locator(".rp-say")).to_contain_text(f"{files[-1].name} is ready.")


@contextmanager
def refusing(page: Page, containing: str) -> Iterator[None]:
    """Refuse events that contain `containing`, long after the user's last action, as after an upload."""
    page.evaluate(
        "Object.defineProperty(navigator, 'userActivation', { value: { isActive: false }, configurable: true })"
    )

    def refuse(route: Route) -> None:
        if containing in (route.request.post_data or ""):
            route.fulfill(status=304)  # a browser would report statuses from 400 on as errors on the console
        else:
            route.continue_()

    page.route("**/gradio_api/run/**", refuse)
    yield
    expect(page.get_by_text("The server refused a request of this page.")).to_be_visible()
    page.unroute("**/gradio_api/run/**", refuse)
    page.evaluate("delete navigator.userActivation")


def drop(target: Locator, file: Path) -> None:
    """Drop a file onto an element."""
    dropped = target.page.evaluate_handle(
        """([name, data]) => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([Uint8Array.from(atob(data), (byte) => byte.charCodeAt(0))], name));
            return dropped;
        }""",
        [file.name, base64.b64encode(file.read_bytes()).decode()],
    )
    target.dispatch_event("drop", {"dataTransfer": dropped})


def begin_recording(page: Page, tenths: int = 3, button: str = "Record") -> None:
    """Record for at least `tenths` of a second, without the countdown. Requires a visit with a clock."""
    page.get_by_role("button", name=button, exact=True).click()
    skip_countdown(page)
    wait_for_recording(page, tenths)


def skip_countdown(page: Page) -> None:
    page.wait_for_function(  # on a busy machine it may already be over
        """() => document.querySelector(".rp-countdown").checkVisibility()
            || document.querySelector(".rp-say").textContent.startsWith("Recording ")""",
        polling=50,
    )
    for _ in range(3):
        page.clock.fast_forward(1000)


def wait_for_recording(page: Page, tenths: int) -> None:
    page.wait_for_function(
        """(least) => {
            const [, seconds] = /^Recording ([0-9.]+)/.exec(document.querySelector(".rp-say").textContent) ?? [0, -1];
            return Number(seconds) >= least / 10;
        }""",
        arg=tenths,
        polling=50,  # ms: each frame would be evaluated otherwise
    )


def downloaded(page: Page, what: Locator, press: Callable[[Locator], object] = Locator.click) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        press(what)
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()
