"""Proof-listening in the Script tab: a script is transcribed, opened again with its differences, and repaired."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from storage import Storage
from studio import recognition
from tests.studio.script.test_runner import Actor
from tests.support.fake_engine import voice
from tests.web.tabs.script.test_tab import card, make, text, text_offset
from tests.web.visiting import violations, visit

PLAY = "The boats come back.\n\nThey went down to the harbour."


def test_script_is_proofed_repaired_and_remembered(
    chromium: Browser, serve: Callable[..., str], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = [False]
    right, wrong = "The boats come back", "They went down to the arbor"
    said = [right, *[wrong] * 5, "They went down to the harbour"]
    monkeypatch.setattr(recognition, "can_transcribe", lambda: ready[0])
    monkeypatch.setattr(recognition, "transcribe", lambda *_given: said.pop(0))
    storage.voices.add(voice("Ann"))
    actor = Actor()
    actor.slots = 2
    actor.script.seconds_per_character = 0.02
    with visit(chromium, serve(actor, storage)) as page:
        make(page, PLAY)
        expect(text(page, 2)).to_have_value("They went down to the harbour.")
        expect(page.get_by_role("button", name="Check and fix")).to_be_hidden()
        page.get_by_label("Listen along").uncheck()
        page.get_by_role("button", name="Speak all").click()
        expect(page.get_by_text("Cards spoken: 2 of 2")).to_be_visible()
        offset = text_offset(page, 2)
        page.get_by_role("button", name="Check and fix").click()
        dialog = page.get_by_role("dialog", name="Automatic transcripts")
        expect(dialog).to_contain_text("operator can enable them")
        ready[0] = True
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Check and fix").click()
        expect(card(page, 1)).to_contain_text("Every word matches the text.")
        expect(card(page, 2).locator("mark")).to_have_text("harbour.")
        expect(card(page, 2)).to_contain_text(f"Recognised: “{wrong}”")
        repair = card(page, 2).get_by_role("button", name="Fix")
        expect(repair).to_be_visible()
        assert len(actor.said) == 2 + 4, "four tries"
        assert text_offset(page, 2) == offset, "the results are below the text"
        assert violations(page, ".rp-scripts") == []
        page.get_by_role("button", name="All scripts").click()
        page.get_by_role("button", name="The boats come back.", exact=True).click()  # the page keeps nothing of it
        expect(card(page, 2).locator("mark")).to_have_text("harbour.")
        repair.press("Enter")
        expect(card(page, 2)).to_contain_text("Every word matches the text.")
        assert said == []
