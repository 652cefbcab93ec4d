"""Drafts and the key of a browser, which survive a reload, separate for each owner."""

import re
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Page, expect

from storage import Storage, VoiceLibrary
from storage.voices.sample_voices import install_samples
from tests.support.fake_engine import FakeEngine, voice
from tests.web.visiting import open_settings, open_tab, pick, picker, visit, wait_for
from web.identity.owners import OwnerResolver

Serve = Callable[..., str]
pytestmark = pytest.mark.slow
TEXT = "Text to speak"


def stored(page: Page) -> str:
    """Return everything in the browser's storage except the owner's key."""
    text: str = page.evaluate("JSON.stringify([{ ...localStorage, 'reprise.owner': '' }, { ...sessionStorage }])")
    return text


def wait_for_draft(page: Page, value: str) -> None:
    """Wait until the stored draft contains `value`."""
    page.wait_for_function("(value) => JSON.stringify({ ...sessionStorage }).includes(value)", arg=value, polling=100)


def test_drafts_and_voices_survive_reloads_for_their_owner_until_all_data_is_deleted(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    adam = library.find("Adam")
    engine.capabilities = replace(engine.capabilities, english_only=False, languages=("english", "german"))
    url = serve(engine, storage, "browser")
    with visit(chromium, url) as page:
        expect(picker(page)).to_have_value("Adam (sample)")
        page.wait_for_function("reprise.draft.restored")
        pick(page, "Ben (sample)")
        page.get_by_label(TEXT).fill("Hers alone.")
        open_settings(page)
        page.get_by_label("Language of the text").click()
        page.locator("#rp-language").get_by_role("option", name="Deutsch").click()
        page.locator("#rp-seed input").fill("12")
        page.locator("#rp-temperature input[type=number]").fill("0.55")
        page.locator("#rp-temperature input[type=number]").press("Tab")
        wait_for_draft(page, '\\"12\\"')
        wait_for_draft(page, "0.55")
        open_tab(page, "Script")
        page.locator("#rp-script-text textarea").fill("ANNA: A draft.")
        wait_for_draft(page, "A draft.")
        open_tab(page, "Library")
        wait_for_draft(page, "library")
        assert "Hers alone." not in page.evaluate("JSON.stringify({ ...localStorage })"), "other pages do not get it"

        page.go_back()
        expect(page.get_by_role("tab", name="Script")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#rp-script-text textarea")).to_have_value("ANNA: A draft.")
        page.go_forward()
        expect(page.get_by_role("tab", name="Library")).to_have_attribute("aria-selected", "true")

        # Another user of the same browser, whose key is not from this server.
        hers = page.evaluate("localStorage.getItem('reprise.owner')")
        owner = OwnerResolver("browser", library.secret("signing")).resolve(None, hers).key
        anna = library.add(voice("Anna"), owner=owner)
        page.evaluate("localStorage.setItem('reprise.owner', 'forged')")
        page.reload()
        expect(page.locator("#rp-speak-notice")).to_contain_text("was given a new one")
        page.wait_for_function("localStorage.getItem('reprise.owner') !== 'forged' && reprise.draft.restored")
        assert page.evaluate("localStorage.getItem('reprise.owner')") != hers
        expect(page.get_by_role("heading", name="Welcome")).to_be_visible()  # as for any browser without voices
        expect(page.locator(".rp-rail-name")).to_have_text([each.name for each in library.list(owner=owner)[1:]])
        expect(page.get_by_label(TEXT)).not_to_have_value("Hers alone.")
        page.get_by_label(TEXT).fill("His alone.")
        wait_for_draft(page, "His alone.")
        expect(page.locator("#rp-seed input")).to_be_hidden()

        page.evaluate("(hers) => localStorage.setItem('reprise.owner', hers)", hers)
        page.reload()
        expect(page.get_by_role("tab", name="Library")).to_have_attribute("aria-selected", "true")
        expect(picker(page)).to_have_value("Ben (sample)")
        expect(page.get_by_label(TEXT)).to_have_value("Hers alone.")
        expect(page.locator(".rp-lib-card").first).to_contain_text("Anna")
        open_tab(page, "Script")
        expect(page.locator("#rp-script-text textarea")).to_have_value("ANNA: A draft.")
        open_tab(page, "Speak")
        expect(page.locator("#rp-seed input")).to_be_visible()  # not folded, since it is in force
        expect(page.locator("#rp-seed input")).to_have_value("12")
        expect(page.locator("#rp-temperature input[type=number]")).to_have_value("0.55")
        expect(page.get_by_label("Language of the text")).to_have_value("Deutsch")
        page.locator("#rp-speak").click()
        wait_for(page, "player.finished")
        text, _, options = engine.asked[0]
        assert (text, options.seed, options.language) == ("Hers alone.", 12, "de")

        open_tab(page, "Library")
        page.locator(".rp-lib-card").first.get_by_role("button", name="Use this voice").click()
        wait_for_draft(page, '\\"tab\\":\\"speak\\"')
        wait_for_draft(page, anna.id)
        other = page.context.new_page()
        other.goto(url)
        other.wait_for_function("reprise.draft.restored")
        other.get_by_label(TEXT).fill("Hers on another page.")
        open_tab(other, "Library")
        other.get_by_role("searchbox", name="Search").fill("Anna")
        open_tab(other, "New voice")
        other.get_by_label("Name of the voice").fill("Hers")
        other.get_by_role("checkbox", name=re.compile("^I am Hers")).check()
        open_tab(other, "History")
        other.locator("#rp-history-search input").fill("Hers")
        open_tab(page, "History")
        page.locator("#rp-history-kept button").first.click()
        page.get_by_role("button", name="Delete all my data…").click()
        page.locator("#rp-forget-sure").click()
        expect(page.locator("#rp-kept-notice")).to_contain_text("All your data is deleted")
        for each in (page, other):
            open_tab(each, "Speak")
            expect(each.get_by_label(TEXT)).to_have_value(adam.demo)
        expect(other.get_by_label("Name of the voice")).to_have_value("")
        expect(other.locator("#rp-consent input")).not_to_be_checked()
        for search in ("#rp-history-search input", ".rp-library input[type=search]"):
            expect(other.locator(search)).to_have_value("")
        expect(page.locator("#rp-script-text textarea")).to_have_value("")
        expect(page.locator("#rp-seed input")).to_have_value("")
        expect(page.locator("#rp-temperature input[type=number]")).to_have_value("0.6")
        page.locator("#rp-seed input").fill("3")  # the draft is kept again, without what was deleted
        wait_for_draft(page, '\\"3\\"')
        assert "Hers" not in stored(other)
        for _ in range(2):  # also after the page was left
            for kept in ("Hers alone.", "A draft.", anna.id):
                assert kept not in stored(page)
            page.goto(urljoin(url, "/reprise/alive"))
