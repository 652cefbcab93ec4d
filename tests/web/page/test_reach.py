"""Touch targets of the page on a phone."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, Page, expect

from engine.messages import english
from storage import Storage, VoiceLibrary
from storage.voices.sample_voices import install_samples
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.web.visiting import PHONE, downloaded, open_tab, picker, speak, visit, wait_for

Serve = Callable[..., str]
LEAST = 44  # px: WCAG 2.5.5, and Apple's guidelines
NOTICE = english()["model.notice_bundled"]
# Controls smaller than `least`. A checkbox is pressed on its label; a file input on the button beside it.
SMALL_TARGETS = """least => {
  const pressed = "button, a[href], summary, select, textarea, input:not([type=file]), [role=slider], [role^=tab]";
  const shown = (node) => !node.disabled && !node.closest("[aria-hidden=true], .rp-unseen")
    && node.checkVisibility({ visibilityProperty: true });
  return [...document.querySelectorAll(pressed)].filter(shown).map((node) => {
    const whole = (["checkbox", "radio"].includes(node.type) && node.closest("label")) || node;
    const { width, height } = whole.getBoundingClientRect();
    return { what: (node.ariaLabel || node.textContent || node.id).trim().slice(0, 40), width, height };
  }).filter(({ width, height }) => width > 1 && Math.min(width, height) < least - 0.5);
}"""

# Fields that Safari enlarges the page for when they are focused.
SMALL_TEXTS = """() => [...document.querySelectorAll("textarea, select, input")]
  .filter(({ type }) => !["checkbox", "radio", "range", "file"].includes(type))
  .filter((field) => parseFloat(getComputedStyle(field).fontSize) < 16)
  .map((field) => field.outerHTML.slice(0, 80))"""


def small_targets(page: Page) -> list[Any]:
    found: list[Any] = page.evaluate(SMALL_TARGETS, LEAST)
    return found


def test_touch_targets_on_a_phone_are_large_enough(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    library.add(voice("Anna"))
    with visit(chromium, serve(FakeEngine(Script(notice="model.notice_bundled")), storage), **PHONE) as page:
        notice = page.locator(".rp-model-notice summary")
        expect(notice).to_have_text(NOTICE)
        assert notice.evaluate("node => node.scrollWidth > node.clientWidth"), "one line of the notice is shown"
        notice.click()
        assert notice.evaluate("node => node.scrollWidth <= node.clientWidth"), "the whole notice is shown"

        expect(picker(page)).to_have_value("Anna")
        speak(page, "We walked along the river.")
        wait_for(page, "player.finished")
        name, _ = downloaded(page, page.get_by_role("button", name="Download WAV"))
        assert name.endswith("We walked along the river.wav")
        page.evaluate("message => window.reprisePlayer.refuse(message)", NOTICE[:100])
        wide = page.locator(".rp-status").evaluate("status => status.clientWidth > innerWidth / 2")
        assert wide, "a problem beside a loaded take is not squeezed"
        page.evaluate("window.reprisePlayer.clearMessage()")
        page.get_by_text("Advanced").click()
        expect(page.get_by_label("Temperature").first).to_be_visible()
        assert small_targets(page) == [], "Speak"

        offer = page.get_by_role("button", name="Make a script of it")
        expect(offer).to_be_hidden()
        page.get_by_label("Text to speak").fill("It rained all day. " * 270)
        expect(page.get_by_text("The text has more than 5,000 characters.")).to_be_visible()
        offer.click()
        expect(page.get_by_role("tab", name="Script", exact=True)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("button", name="Speak all")).to_be_visible()
        assert small_targets(page) == [], "Script, with a script open"
        page.get_by_role("button", name="All scripts").click()
        expect(page.get_by_text("Cards spoken: 0 of 90").first).to_be_visible()
        assert small_targets(page) == [], "Script"

        open_tab(page, "New voice")
        page.locator(".rp-file").set_input_files(CLIP)
        expect(page.get_by_label("The words in this clip")).to_be_visible()
        assert small_targets(page) == [], "New voice"
        for tab in ("Library", "History", "Status"):
            open_tab(page, tab)
            page.wait_for_load_state("networkidle")
            assert small_targets(page) == [], tab
        assert page.evaluate(SMALL_TEXTS) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") == 390, "the page does not scroll sideways"
        open_tab(page, "Speak")
        expect(page.get_by_label("Text to speak")).to_have_value("")
    assert [script.cards for script in storage.scripts.list()] == [90]
