"""The pages of one visitor, on which steps are taken with a mouse, a finger, keys, or several in one tick."""

import io
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from threading import Thread

from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Error, FilePayload, Page, Request, Response

from storage.voices.sample_voices import SAMPLES
from tests.attack.pages.actions import TABS, Step
from tests.paths import CLIP, SPEECH
from tests.web.visiting import PHONE, SIZE

LIMIT = 90.0  # seconds until all that was begun must have ended
CALM = 3  # looks in a row without anything going on
LOADING, RELOADING, SHOWING = 60_000, 10_000, 400  # ms
MOST_PAGES = 3


def _picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "PNG")
    return file.getvalue()


def _files(name: str, *contents: bytes) -> list[FilePayload]:
    return [FilePayload(name=f"{i} {name}", mimeType="", buffer=data) for i, data in enumerate(contents)]


FILES = {  # by what steps call them
    "clip": _files("a clip.flac", CLIP.read_bytes()),
    "clips": _files("clip.flac", CLIP.read_bytes(), (SPEECH / "espeak_en_gb.flac").read_bytes()),
    "voices": _files("sample.voice", *((SAMPLES / f"{name}.voice").read_bytes() for name in ("ben", "clara"))),
    "picture": _files("picture.png", _picture()),
    "script": _files("play.txt", b"Ann: Hello there.\n\nBen: Hello.\n\nThe rain has stopped."),
    "words": _files("words.csv", b"word,spoken\nGIF,jif\nSQL,sequel\n"),
}
FORGET = "#rp-forget-sure"
ABSENT = "absent"  # instead of the name of an element that cannot be reached
# Finds the element of a step among those that a visitor can reach, and clicks, fills or focuses it, or returns its
# place, if nothing covers it. Tabs that do not fit are in a menu; before another tab is opened, a dialog is closed.
ACT = """([how, steps]) => {
  const find = ({ do: what, on, pick }) => {
    const modal = document.querySelector("dialog:modal");
    const menu = [...document.querySelectorAll("#rp-tabs .overflow-dropdown button")];
    const rest = TABS.filter((tab) => !document.getElementById(`rp-tab-${tab}-button`));
    if (["tab", "language"].includes(what)) modal?.close();
    if (what === "tab") {
      return document.getElementById(`rp-tab-${on}-button`) ?? menu[rest.indexOf(on)];
    }
    const nodes = [...document.querySelectorAll(on)].filter((node) => !node.disabled
      && node.checkVisibility({ visibilityProperty: true }) && (!modal || modal.contains(node)));
    return nodes[pick % nodes.length];
  };
  const enter = (node, text) => {
    const kind = { TEXTAREA: HTMLTextAreaElement, SELECT: HTMLSelectElement }[node.tagName] ?? HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(node, text);
    for (const event of ["input", "change"]) node.dispatchEvent(new Event(event, { bubbles: true }));
  };
  const any = ({ options = [] }, pick) => options[pick % options.length]?.value ?? "";
  const place = (node) => {
    node.scrollIntoView({ block: "center" });
    const { x, y, width, height } = node.getBoundingClientRect();
    const top = document.elementFromPoint(x + width / 2, y + height / 2);
    return node.contains(top) || top?.closest("label")?.contains(node) ? [x + width / 2, y + height / 2] : null;
  };
  return steps.map((step) => {
    const node = find(step);
    if (!node || (step.do === "type" && !node.matches("input, textarea"))) return null;
    const name = node.ariaLabel || node.textContent.trim().slice(0, 30) || node.name || node.localName;
    if (how === "place") return place(node) && [name, ...place(node)];
    if (how === "focus") node.focus();
    else if (getComputedStyle(node).pointerEvents === "none") return null;
    else if (["type", "choose", "language"].includes(step.do)) enter(node, step.text || any(node, step.pick));
    else node.click();
    return how !== "focus" || document.activeElement === node ? [name] : null;
  });
}""".replace("TABS", str(list(TABS)))
SHOWN = "(on) => [...document.querySelectorAll(on)].some((node) => node.checkVisibility() && !node.disabled)"
GOING_ON = """() => {
  const shown = (on) => [...document.querySelectorAll(on)].filter((node) => node.checkVisibility()).map(() => on);
  const states = ["waiting", "requested", "fetching"].map((state) => `.rp-player[data-state=${state}]`);
  return ["html[data-rp-busy]", "#rp-connection .rp-bad", ...states, ".rp-notice.rp-busy", "[aria-busy=true]",
    ".rp-status-loading", ".rp-script-stop", ".generating", ".translucent", ".rp-clip[data-state=uploading]",
    ".rp-clip[data-state=asking]",
    ".rp-verdict:not(:has(.rp-light))",
  ].flatMap(shown);
}"""


# Whether the page shows the item of a link: [kind, id]; a message says that it is not there.
ARRIVED = """([kind, id]) => document.querySelector(".rp-link-notice") || {
  voice: () => document.querySelector(`.rp-rail-row[data-picked][data-id="${id}"]`),
  take: () => sessionStorage.getItem("reprise.takes")?.includes(id),
  script: () => document.querySelector(".rp-script-open").checkVisibility(),
}[kind]()"""


class Visit:
    """One visitor with some pages, and the troubles seen on them. url: the page's.

    cut: ends all connections and refuses new ones for some seconds. hold: holds all data back for some seconds. Both
        return the thread that ends this.
    """

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        pages: int,
        phone: bool,
        cut: Callable[[float], Thread] | None = None,
        hold: Callable[[float], Thread] | None = None,
    ) -> None:
        self.phone, self.troubles, self._pending = phone, list[str](), dict[Request, Page]()
        self._url, self._cut, self._hold = url, cut, hold
        self._back, self._was_cut = list[Thread](), False
        self.forgot = False  # whether all data may have been deleted
        size = PHONE if phone else {"viewport": SIZE}
        self.context = browser.new_context(reduced_motion="reduce", permissions=["microphone"], **size)
        self.pages = [self._opened(url) for _ in range(pages)]

    def _opened(self, url: str) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        page.on("console", self._hear)
        page.on("response", self._see)
        page.on("dialog", lambda dialog: dialog.accept())
        page.on("request", lambda request: self._pending.update({request: page}))
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)
        page.goto(url, timeout=LOADING)
        wait_until_open(page)
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not self._was_cut:
            self.troubles.append(f"console: {message.text} ({message.location.get('url')})")

    def _see(self, response: Response) -> None:
        if response.status >= 500:
            self.troubles.append(f"status {response.status}: {response.url}")

    def _end(self, request: Request) -> None:
        self._pending.pop(request, None)

    def take(self, page: Page, how: str, steps: Sequence[Step]) -> list[str]:
        """Take the steps. Returns the names of the pressed elements; ABSENT for those that cannot be reached."""
        names = list[str]()
        for at_once, some in groupby(steps, lambda step: how == "tick" and step.do in ("click", "type", "choose")):
            for together in [list(some)] if at_once else [[step] for step in some]:
                if names and names[-1] != ABSENT and together[0].do in ("click", "type", "choose"):
                    with suppress(Error):  # what the step before shows takes a moment
                        page.wait_for_function(SHOWN, arg=together[0].on, timeout=SHOWING, polling=20)
                names += self._act(page, "click", together) if at_once else [self._take(page, how, together[0])]
                self.forgot |= any(step.on == FORGET for step in together)
        return names

    def _act(self, page: Page, how: str, steps: Sequence[Step]) -> list[str]:
        found = page.evaluate(ACT, [how, [asdict(step) for step in steps]])
        return [each[0] if each else ABSENT for each in found]

    def _take(self, page: Page, how: str, step: Step) -> str:
        match step.do:
            case "back" | "forward":
                page.evaluate(f"navigation.canGo{step.do.capitalize()} && history.{step.do}()")
            case "reload":
                self.reload(page)
            case "language":
                self.connect()
                with suppress(Error), page.expect_navigation(timeout=RELOADING), suppress(Error):
                    self._act(page, "click", [step])
                self._renew(page)
            case "link":
                return self._follow(page, step)
            case "page":
                self.connect()
                if len(self.pages) < MOST_PAGES:
                    self.pages.append(self._opened(self._url))
            case "cut" if self._cut:
                self.connect()
                self._was_cut = True
                self._back.append(self._cut(int(step.text) / 1000))
            case "hold" if self._hold:
                self.connect()
                self._back.append(self._hold(int(step.text) / 1000))
            case "focus":
                return self._act(page, "focus", [step])[0]
            case "wait":
                page.wait_for_timeout(int(step.text))
            case "end":
                with suppress(Error):
                    page.wait_for_function("!document.documentElement.hasAttribute('data-rp-busy')", timeout=20_000)
            case "key":
                page.keyboard.press(step.on)
            case "files":
                with suppress(Error):  # the field is not there meanwhile
                    page.locator(step.on).first.set_input_files(FILES[step.text or "clip"], timeout=2_000)
            case "choose":
                return self._act(page, "click", [step])[0]
            case _:
                return self._press(page, how, step)
        return step.on

    def _press(self, page: Page, how: str, step: Step) -> str:
        (place,) = page.evaluate(ACT, ["place", [asdict(step)]])
        if step.do == "tab" and not place:  # it is in a closed menu
            return self._act(page, "click", [step])[0]
        if how == "keys":
            name = self._act(page, "focus", [step])[0]
            if name != ABSENT and step.do != "type":
                page.keyboard.press("Space" if step.on.endswith("input") else "Enter")
        else:
            name = place[0] if place else ABSENT
            if place:
                (page.touchscreen.tap if self.phone else page.mouse.click)(*place[1:])
        if name != ABSENT and step.do == "type":
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.insert_text(step.text) if step.text else page.keyboard.press("Delete")
        return name

    def _follow(self, page: Page, step: Step) -> str:
        ids = page.evaluate(
            "(on) => [...document.querySelectorAll(on)].map((node) => node.dataset.id ?? node.id)", step.on
        )
        if not ids:
            return ABSENT
        id = ids[step.pick % len(ids)].removeprefix("rp-entry-")
        self.connect()
        with page.expect_navigation(timeout=LOADING):  # without a new entry in the browser's history
            page.evaluate("(search) => location.replace(search)", f"?{step.text}={id}")
        self._renew(page)
        self.settle(page)
        if not page.evaluate(ARRIVED, [step.text, id]):
            self.troubles.append(f"the link to {step.text} {id} shows nothing")
        return id

    def connect(self) -> None:
        """Wait until the server can be reached."""
        for thread in self._back:
            thread.join()

    def reload(self, page: Page) -> None:
        self.connect()
        page.reload(timeout=LOADING)
        self._renew(page)

    def _renew(self, page: Page) -> None:
        self._pending = {request: of for request, of in self._pending.items() if of != page}
        wait_until_open(page)

    def settle(self, page: Page, calm: int = CALM) -> None:
        """Wait until nothing goes on. What goes on for ever is a trouble."""
        self.connect()
        until, quiet = time.monotonic() + LIMIT, 0
        while quiet < calm:
            page.wait_for_timeout(100)
            going = [*page.evaluate(GOING_ON), *(each.url for each, of in self._pending.items() if of == page)]
            quiet = 0 if going else quiet + 1
            if time.monotonic() > until:
                self.troubles.append(f"never ended: {', '.join(going)}")
                return

    def open_tab(self, page: Page, tab: str) -> None:
        self._act(page, "click", [Step("tab", tab)])
        page.wait_for_timeout(100)
        self.settle(page, 1)


def wait_until_open(page: Page) -> None:
    """Wait until the page has its owner and its voices. A voice can be picked before their list has arrived."""
    listed = "document.querySelector('.rp-rail-row, .rp-rail-none:not([hidden])')"
    opened = f"window.reprisePlayer && document.querySelector('#rp-picker input')?.value && {listed}"
    page.wait_for_function(opened, timeout=LOADING, polling=50)
