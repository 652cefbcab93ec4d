"""All tabs, on small and large screens, light and dark: no sideways scrolling and no accessibility violations."""

import re
from collections.abc import Callable
from typing import Literal

from playwright.sync_api import Browser, Page, ViewportSize, expect

from storage import Storage
from storage.voices.sample_voices import install_samples
from tests.support.fake_engine import FakeEngine, voice
from tests.web.visiting import SERIOUS, open_tab, picker, violations, visit
from web.ui.i18n import Translations
from web.ui.modules import STATIC

Serve = Callable[..., str]
PANELS = {
    "Speak": "#rp-tab-speak",
    "New voice": "#rp-tab-new",
    "Library": "#rp-tab-library",
    "Script": "#rp-tab-script",
    "History": "#rp-tab-history",
    "Status": "#rp-tab-status",
}
CONTRAST = ("color-contrast",)
# The ids of the dropdowns whose text may run under their arrow.
COVERED = """() => [...document.querySelectorAll("#rp-tabs .icon-wrap")].filter((arrow) => {
    const input = arrow.parentElement.querySelector("input");
    const { paddingRight, textOverflow } = getComputedStyle(input);
    const end = input.getBoundingClientRect().right - parseFloat(paddingRight);
    return input.checkVisibility() && (end > arrow.getBoundingClientRect().left || textOverflow !== "ellipsis");
}).map((arrow) => arrow.closest("[id]").id)"""
# Parts beyond the right edge of the page that cannot be scrolled to. Gradio measures its row of tabs out of sight.
CUT_OFF = """() => {
    const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
    const reachable = (node) => node !== document.body && (scrolls(node) || reachable(node.parentElement));
    const beyond = (node) => node.checkVisibility() && node.getBoundingClientRect().right > innerWidth + 1;
    const parts = [...document.querySelectorAll("body *")].filter((node) => !node.closest(".tab-wrapper"));
    return parts.filter((node) => beyond(node) && !reachable(node)).map((node) => node.outerHTML.slice(0, 200));
}"""
# Controls that are higher than what hides their overflow.
CLIPPED = """() => {
    const hides = (node) => ["hidden", "clip"].includes(getComputedStyle(node).overflowY);
    const within = (node, { top, bottom }) => {
        const box = node.getBoundingClientRect();
        return (!hides(node) || (top > box.top - 1 && bottom < box.bottom + 1))
            && (node.id === "rp-tabs" || within(node.parentElement, { top, bottom }));
    };
    const shown = [...document.querySelectorAll("#rp-tabs .tabitem :is(input, select, textarea, button, summary)")]
        .filter((node) => node.checkVisibility() && node.offsetHeight > 1);
    return shown.filter((node) => !within(node.parentElement, node.getBoundingClientRect()))
        .map((node) => node.outerHTML.slice(0, 200));
}"""
UNFOLD = "document.querySelectorAll('#rp-tabs .label-wrap:not(.open)').forEach((head) => head.click())"
SHOW_ALL = """() => document.querySelectorAll("#rp-tabs [role=tabpanel]")
    .forEach((panel) => panel.style.setProperty("display", "block", "important"))"""
PHONE, TABLET, LAPTOP, DESKTOP = (
    ViewportSize(width=390, height=844),
    ViewportSize(width=820, height=1180),
    ViewportSize(width=1280, height=800),
    ViewportSize(width=1920, height=1080),
)


def test_no_style_depends_on_what_the_whole_page_contains() -> None:
    """A browser computes all styles below such an ancestor anew at nearly every change of what it contains."""
    styles = "".join(path.read_text("utf-8") for path in STATIC.rglob("*.css"))
    depending = re.findall(r"(?:html|:root|body|\.gradio-container|#rp-tabs|\.tabitem)(?::not\()?:has\([^>].*", styles)
    assert depending == []


def reach_hidden_tab_by_keyboard(page: Page) -> None:
    open_tab(page, "Speak")
    menu = page.get_by_role("button", name="More tabs")
    menu.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator(".overflow-dropdown").get_by_role("button", name="Script", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Script", exact=True)).to_have_attribute("aria-selected", "true")
    expect(menu).to_be_focused()


def check_every_tab(page: Page) -> None:
    """Open each tab, and then show all at once, one below the other: check their widths on all screens, and their
    accessibility and contrast on a phone and a desktop, and the dark theme's contrast on the desktop.

    A check of the page takes nearly as long with one tab as with all.
    """
    for tab, panel in PANELS.items():
        open_tab(page, tab)
        expect(page.locator(panel)).to_be_visible()
    page.evaluate(UNFOLD)
    page.evaluate(SHOW_ALL)
    for panel in PANELS.values():
        expect(page.locator(panel)).to_be_visible()
    for size in (TABLET, LAPTOP, DESKTOP, PHONE):
        page.set_viewport_size(size)
        width, room = page.evaluate("[document.scrollingElement.scrollWidth, window.innerWidth]")
        assert width <= room, size["width"]
        assert page.evaluate(CUT_OFF) == [], size["width"]
        assert page.evaluate(COVERED) == [], size["width"]
        assert page.evaluate(CLIPPED) == [], size["width"]
        if size == PHONE:
            assert violations(page, None, SERIOUS) == []
        if size == DESKTOP:
            assert violations(page, None, SERIOUS) == []
            switch_theme(page, "dark")
            assert violations(page, None, SERIOUS, CONTRAST) == []  # a theme changes nothing else
            switch_theme(page, "light")


def check_forced_colours(page: Page) -> None:
    """Check what would not be seen without the page's colours."""
    page.set_viewport_size(LAPTOP)
    page.emulate_media(forced_colors="active")
    tab, voice_row = page.locator("#rp-tabs [role=tab][aria-selected=true]"), page.locator(".rp-rail-row[data-picked]")
    line = tab.evaluate("tab => getComputedStyle(tab, '::after').backgroundColor")
    dot = page.evaluate("""() => {
        document.documentElement.toggleAttribute("data-rp-recording", true);
        const drawn = getComputedStyle(document.getElementById("rp-tab-new-button"), "::before").backgroundColor;
        document.documentElement.toggleAttribute("data-rp-recording", false);
        return drawn;
    }""")
    canvas = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert canvas not in (line, dot)
    # Forced colours make transparent borders visible, with which the arrow was a square.
    arrow = page.locator(".rp-script-cast summary").evaluate("s => getComputedStyle(s, '::after').borderTopWidth")
    assert arrow == "0px"
    expect(page.locator(".rp-script-progress")).to_have_css("border-top-style", "solid")
    expect(voice_row).to_have_css("outline-style", "solid")
    page.emulate_media(forced_colors="none")
    page.set_viewport_size(PHONE)


def check_model_notice(page: Page) -> None:
    """Check that the notice of the bundled model is shown in full, that a notice is beside the tabs where they share a
    line, also with the user's name, and that it opens within the window.
    """
    details = page.locator(".rp-model-notice")
    for size in (PHONE, LAPTOP):
        page.set_viewport_size(size)
        for texts in Translations.load().languages.values():
            shown = "(node, text) => { node.textContent = text; return node.scrollHeight <= node.clientHeight; }"
            assert details.locator("summary").evaluate(shown, texts["model.notice_bundled"]), texts["heading.running"]
    top = """model => {
        model.querySelector("p").insertAdjacentHTML("afterend", '<p class="rp-account"><span>Anna</span></p>');
        model.querySelector("summary").textContent = "A long notice. ".repeat(20);
        return model.getBoundingClientRect().top;
    }"""
    assert page.locator(".rp-model").evaluate(top) >= 0, "the user's name has room, too"
    one_line = details.locator("summary").evaluate("notice => notice.scrollHeight <= notice.clientHeight")
    assert one_line, "what does not fit ends in an ellipsis"
    expect(details.locator("summary")).to_have_css("text-overflow", "ellipsis")
    page.locator(".rp-account").evaluate("account => account.remove()")
    details.locator("summary").click()
    expect(details).to_have_attribute("open", "")
    assert details.locator("summary").evaluate("notice => notice.getBoundingClientRect().top") >= 0
    page.keyboard.press("Escape")
    expect(details).not_to_have_attribute("open")
    details.locator("summary").click()
    open_tab(page, "Library")
    expect(details).not_to_have_attribute("open")
    open_tab(page, "Speak")
    page.set_viewport_size({"width": 1100, "height": 800})  # some tabs are in the menu
    expect(page.get_by_role("button", name="More tabs")).to_be_visible()
    end = page.get_by_role("button", name="More tabs").evaluate("menu => menu.getBoundingClientRect().right")
    assert end <= page.locator(".rp-model").evaluate("model => model.getBoundingClientRect().left")
    page.set_viewport_size(PHONE)


def check_theme_of_browser(page: Page) -> None:
    """Check that scroll bars and other parts drawn by the browser have the theme that the page takes from it."""
    themes: tuple[Literal["dark", "light"], ...] = ("dark", "light")
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_css("color-scheme", theme)


def check_sign_of_life(page: Page) -> None:
    """Check that the page shows its name until its first component is there."""
    shown = "getComputedStyle(document.body, '::before').content"
    assert page.evaluate(shown) == "none"
    assert page.evaluate(f"document.documentElement.toggleAttribute('data-rp-mounted', false), {shown}") == '"Reprise…"'
    page.evaluate("document.documentElement.toggleAttribute('data-rp-mounted', true)")


def switch_theme(page: Page, theme: str) -> None:
    page.locator("#rp-switches").get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_css("color-scheme", theme)


def test_tabs_fit_the_screen_without_accessibility_violations(
    chromium: Browser, serve: Serve, engine: FakeEngine, storage: Storage
) -> None:
    install_samples(storage.voices)
    storage.voices.add(voice("A voice with a rather long name, as people give them"))
    with visit(chromium, serve(engine, storage), viewport=PHONE) as page:
        expect(picker(page)).not_to_have_value("")
        check_sign_of_life(page)
        expect(page.get_by_label("Text to speak")).to_have_css(
            "unicode-bidi", "plaintext"
        )  # Arabic begins at the right
        check_theme_of_browser(page)
        check_model_notice(page)
        reach_hidden_tab_by_keyboard(page)
        check_every_tab(page)
        check_forced_colours(page)
