"""Take the screenshots of docs/pages: every tab of the real app, light and dark, on desktop and phone.

python -m scripts.screenshots
"""

import argparse
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, StorageState, expect

from benchmarks.browser import chromium, served_app
from tests.web.visiting import TIMEOUT, open_tab

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "pages"
TABS = {"speak": "Speak", "new-voice": "New voice", "library": "Library", "script": "Script", "history": "History",
        "status": "Status"}  # fmt: skip
SIZES = {"wide": (1920, 1080), "desktop": (1280, 900), "phone": (390, 844)}
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
CLIP = ROOT / "tests" / "fixtures" / "speech" / "flite_slt.flac"
DIALOGUE = "Clara: Have you seen the blue bicycle?\nBen: It is on the bridge.\nClara: Then let us go for a walk."


def work(page: Page) -> None:
    """Create two takes and a script as sample content."""
    for number in (1, 2):
        page.get_by_role("button", name="Speak", exact=True).click()
        expect(page.locator(".rp-take")).to_have_count(number, timeout=TIMEOUT)
        page.wait_for_timeout(1500)
    open_tab(page, "Script")
    page.get_by_label("Text of the new script").fill(DIALOGUE)
    page.get_by_role("button", name="Make cards").click()
    page.get_by_label("Listen along").uncheck()
    page.get_by_role("button", name="Speak all").click()
    page.get_by_role("button", name="Play all").wait_for()
    page.wait_for_timeout(1000)


def picture(browser: Browser, url: str, size: str, theme: Theme, state: StorageState) -> None:
    """Capture every tab in one size and theme, as a returning visitor."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, storage_state=state, device_scale_factor=1
    )
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    page.goto(f"{url}?__theme={theme}")
    expect(page.get_by_role("button", name="Speak", exact=True)).to_be_visible(timeout=TIMEOUT)
    page.wait_for_timeout(2500)
    for name, tab in TABS.items():
        open_tab(page, tab)
        if name == "speak":
            page.get_by_role("button", name="Speak", exact=True).click()
            page.wait_for_function("reprisePlayer.stats.finished && reprisePlayer.stats.length > 0")
        if name == "new-voice":
            page.locator(".rp-file").set_input_files(CLIP)
        page.wait_for_timeout(3000)
        if size != "phone":  # the whole page; the player stays at the bottom of the window
            whole = page.evaluate("document.scrollingElement.scrollHeight")
            page.set_viewport_size({"width": width, "height": max(height, min(whole, 2 * height))})
            page.wait_for_timeout(300)
        page.screenshot(path=PAGES / f"{size}-{theme}-{name}.png")
        page.set_viewport_size({"width": width, "height": height})
    context.close()


def main() -> None:
    """Write the screenshots and the page that shows them."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGES.mkdir(parents=True, exist_ok=True)
    with served_app() as url, chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        page.goto(url)
        page.wait_for_timeout(3000)
        work(page)
        state = context.storage_state()
        context.close()
        address = url.partition("?")[0]  # the state has the token's cookie
        for size, theme in product(SIZES, THEMES):
            picture(browser, address, size, theme, state)
    rows = [f"| {tab} | " + " | ".join(f"![{tab}]({size}-{theme}-{name}.png)" for size, theme in product(SIZES, THEMES))
            + " |" for name, tab in TABS.items()]  # fmt: skip
    heads = [f"{size}, {theme}" for size, theme in product(SIZES, THEMES)]
    table = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", *rows]
    readme = PAGES / "README.md"
    text = readme.read_text("utf-8").partition("\n| ")[0]  # the text before the table stays
    readme.write_text("\n".join([text, *table]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
