"""What a page shows, compared with what it shows when it is reloaded, and with the database."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from playwright.sync_api import Page

from storage import Storage
from storage.errors import TakeNotFound
from tests.attack.pages.actions import TABS
from tests.attack.pages.visit import Visit
from tests.paths import ROOT
from web.context import SIGNING
from web.identity.owners import OwnerResolver

# A page that regains the focus is refreshed. Searches hide what is compared.
TIDY = """() => {
  dispatchEvent(new Event("focus"));
  document.querySelector(".rp-stop-all").click();
  document.querySelector("dialog[open]")?.close();
  document.querySelector("[data-act=cancel]")?.click();
  for (const field of document.querySelectorAll("input[type=search], #rp-history-search input")) {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const starred = document.querySelector("#rp-history-starred input");
  if (starred?.checked) starred.click();
  if (document.querySelector(".rp-clip[data-state=recording]")) document.querySelector(".rp-record").click();
}"""
STOPPED = [json.loads(file.read_text("utf-8"))["history.stopped"] for file in ROOT.glob("web/locales/*/history.json")]
SHOWN = """() => {
  const all = (on) => [...document.querySelectorAll(on)];
  const text = (node, on) => node.querySelector(on)?.textContent.trim() ?? "";
  return {
    voices: all('.rp-lib-cards[data-list=own] h4').map((node) => node.textContent.trim()).sort(),
    favourites: all(".rp-rail-row:has(.rp-rail-star[aria-pressed=true])").map((node) => node.dataset.id).sort(),
    history: all(".rp-entry").map((node) =>
      [text(node, ".rp-entry-text"), node.querySelector(".rp-entry-star").ariaPressed]),
    words: all(".rp-dictionary tbody tr").map((node) => [text(node, "button"), node.children[1].textContent]).sort(),
    keep: document.querySelector("#rp-history-keep input")?.checked,
    days: document.querySelector("#rp-history-days input")?.value,
    scripts: document.querySelector(".rp-script-overview").hidden
      ? null : all(".rp-script-title").map((node) => node.textContent).sort(),
    cards: document.querySelector(".rp-script-open").hidden ? null : [document.querySelector(".rp-script-name").value,
      ...all(".rp-script-card").map(({ view: { parts, card, text: written } }) => parts
        ? [written.field.value, parts.speaker.value, parts.voice.value, parts.lock.ariaPressed === "true", card.state]
        : [card.text, card.speaker ?? "", card.voice ?? "", card.locked, card.state])],
    takes: all(".rp-take").map((node) => [text(node, ".rp-take-text"), node.querySelector(".rp-take-star").ariaPressed,
      STOPPED.some((words) => node.querySelector(".rp-take-facts").textContent.includes(words))]),
    ids: JSON.parse(sessionStorage.getItem("reprise.takes") ?? "[]").map(({ id }) => id),
    picked: document.querySelector("#rp-picker input").value,
    text: document.querySelector("#rp-text textarea").value,
    pictures: all(".rp-lib-cards[data-list=own] > :has([data-picture])").map((node) => node.dataset.id).sort(),
    deleted: all(".rp-lib-aside [data-id]").map((node) => node.dataset.id).sort(),
    form: all("#rp-name input, #rp-speaker input, #rp-describe textarea").map((node) => node.value),
    settings: all("#rp-advanced input").map((node) => node.value),
    shell: [document.body.classList.contains("dark"), document.documentElement.lang,
      ...all(".rp-speed, .rp-mute, .rp-at-once").map((node) => node.ariaPressed ?? node.value)],
  };
}""".replace("STOPPED", json.dumps(STOPPED))
UNFOLD = (
    "document.querySelectorAll(':is(#rp-history-kept, #rp-advanced) .label-wrap:not(.open)').forEach((e) => e.click())"
)
CONTROLS = """() => [...document.querySelectorAll("button, input, select, textarea")]
  .filter((node) => node.checkVisibility())
  .map((node) => [node.ariaLabel || node.textContent.trim().slice(0, 40) || node.className,
    node.disabled || node.ariaDisabled === "true"])"""


CHOICES = ("picked", "shell")  # deleted with all data, though the page shows them until it is left
OF_BROWSER = ("scripts", "cards", "shell")  # a reload shows what any page of the browser had last
PAGE = 20  # entries of the history that a page shows at first


def differences(visit: Visit, page: Page, storage: Storage) -> Iterator[str]:
    """Yield what is wrong with a page whose actions and deletions have ended. Reloads it."""
    page.evaluate(TIDY)
    visit.settle(page)
    shown, controls = _seen(visit, page)
    visit.reload(page)
    visit.settle(page)
    again, others = _seen(visit, page)
    same_script = shown["cards"] == again["cards"]
    yield from (
        f"stays disabled: {name}"
        for name, disabled in controls.items()
        if disabled and not others.get(name, True) and (same_script or not name.startswith("script: "))
    )
    for name, value in shown.items():
        after = again[name]
        if name == "history":
            value, after = value[:PAGE], after[:PAGE]
        if (visit.forgot and name in CHOICES) or (name == "text" and not value):
            continue  # a new page fills an empty text with the voice's sentence
        if (len(visit.pages) == 1 or name not in OF_BROWSER) and value != after:
            yield f"{name}: {value}, after a reload {after}"
    yield from _against(storage, owner_of(page, storage), shown)


def owner_of(page: Page, storage: Storage) -> str:
    token = page.evaluate("localStorage.getItem('reprise.owner')")
    return OwnerResolver("browser", storage.voices.secret(SIGNING)).resolve(None, token).key


def _seen(visit: Visit, page: Page) -> tuple[dict[str, Any], dict[str, bool]]:
    controls = dict[str, bool]()
    for tab in TABS:
        visit.open_tab(page, tab)
        page.evaluate(UNFOLD)
        controls |= {f"{tab}: {name}": disabled for name, disabled in page.evaluate(CONTROLS)}
        if tab == "history":
            shown = dict(page.evaluate(SHOWN))
    return shown, controls


def _against(storage: Storage, owner: str, shown: dict[str, Any]) -> Iterator[str]:
    entries = storage.history.page(owner=owner, limit=max(1, len(shown["history"])))
    own = {voice.id: voice.name for voice in storage.voices.list(owner=owner) if not voice.shared}
    stored: dict[str, Any] = {
        "voices": sorted(own.values()),
        "favourites": sorted(storage.favourites.ids(owner=owner)),
        "history": [[take.text.strip(), str(take.starred).lower()] for take in entries.records]
        if entries.total
        else [],
        "words": sorted([entry.word, entry.spoken] for entry in storage.pronunciations.list(owner=owner)),
        "pictures": sorted(id for id, picture in storage.portraits.all(owner=owner).items() if picture and id in own),
        "deleted": sorted(voice.id for voice in storage.voices.trashed(owner=owner)),
        "keep": storage.history.settings(owner=owner).history,
        "takes": [_stored(storage, owner, id) or take for id, take in zip_longest(shown["ids"], shown["takes"])],
    }
    scripts = storage.scripts.list(owner=owner)
    if shown["scripts"] is None:
        texts = [
            [script.name]
            + [
                [card.text, card.speaker or "", card.voice_id or "", card.locked, card.state]
                for card in storage.scripts.cards(script.id, owner=owner)
            ]
            for script in scripts
        ]
        stored["cards"] = shown["cards"] if shown["cards"] in texts else texts
    else:
        stored["scripts"] = sorted(script.name for script in scripts)
    for name, value in stored.items():
        if value != shown[name]:
            yield f"{name}: {shown[name]}, in the database {value}"


def _stored(storage: Storage, owner: str, id: str) -> list[Any] | None:
    """A take as the page shows it; None if it is only in memory, because the history is off."""
    try:
        take = storage.history.get(id, owner=owner)
    except TakeNotFound:
        return None
    return [take.text.strip(), str(take.starred).lower(), take.stop_reason == "cancelled"]
