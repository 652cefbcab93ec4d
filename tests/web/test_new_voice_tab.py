"""New voice as a person makes one: recorded or chosen, named, agreed to, saved, and heard."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from storage import Studio, VoiceLibrary
from tests.web.conftest import PLAIN_HTTP_HOST, SPEECH
from tests.web.fake_engine import FakeEngine, Script, voice
from tests.web.visiting import PATIENCE, open_tab, picker, visit, wait_for
from web.face.translations import Translations
from web.new_voice.reading import SCRIPTS

Serve = Callable[..., str]
STORY = SPEECH.with_name("flite_slt_story.flac")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(Script(pace=0.1))


def record(page: Page, seconds: int) -> None:
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator(".rp-say")).to_contain_text(f"Recording {seconds}.")
    page.get_by_role("button", name="Stop", exact=True).first.click()
    expect(page.locator(".rp-say")).to_contain_text("Recorded ")


def upload(page: Page, *files: Path) -> None:
    page.locator(".rp-file").set_input_files(files)
    expect(page.locator(".rp-say")).to_contain_text(f"{files[-1].name} is ready.")


def test_four_actions_after_the_recording_until_the_new_voice_is_heard(
    chromium: Browser, serve: Serve, library: VoiceLibrary, studio: Studio, engine: FakeEngine
) -> None:
    with visit(chromium, serve(engine, studio)) as page:
        open_tab(page, "New voice")
        expect(page.locator(".rp-script-text")).to_have_text(SCRIPTS[0])
        record(page, 4)

        page.get_by_label("Name of the voice").fill("Anna")  # 1
        page.get_by_role("checkbox", name=re.compile("^I am Anna and agree")).check()  # 2
        page.get_by_role("button", name="Save voice").click()  # 3
        expect(page.get_by_role("tab", name="Speak")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Anna”.")
        expect(picker(page)).to_have_value("Anna")
        page.get_by_role("button", name="Speak", exact=True).click()  # 4
        wait_for(page, "player.played > 0")

        made = library.load(library.find("Anna").id)
        assert made.references[0].transcript == SCRIPTS[0], "the words that were read are known"
        assert made.consent is not None
        assert made.consent.sentence.startswith("I am Anna and agree")
        assert engine.asked[0][1] == made

        open_tab(page, "New voice")
        expect(page.locator(".rp-clips")).to_be_hidden()
        expect(page.get_by_label("Name of the voice")).to_have_value("")
        expect(page.get_by_role("checkbox", name=re.compile("^I am … and agree"))).not_to_be_checked()


def test_several_clips_trimmed_and_named_after_somebody_else_become_one_voice(
    chromium: Browser, serve: Serve, library: VoiceLibrary, studio: Studio, engine: FakeEngine
) -> None:
    with visit(chromium, serve(engine, studio)) as page:
        open_tab(page, "New voice")
        words = page.get_by_label("The words in this clip")
        upload(page, STORY)
        words.fill("The long one.")
        for _ in range(5):
            page.get_by_role("slider", name="Start").press("PageUp")
        upload(page, SPEECH)
        expect(words).to_have_value("")
        page.get_by_label("Name of the voice").fill("Reader")
        page.get_by_label("Speaker").fill("Grandma Ada")
        agreed = page.get_by_role("checkbox", name=re.compile("Grandma Ada has agreed that I clone it"))
        agreed.check()
        page.get_by_role("button", name="Save voice").click()
        notice = page.locator("#rp-form-notice")
        expect(notice).to_contain_text("Type the words that are spoken in “flite_slt.flac”")
        expect(agreed).to_be_checked()
        words.fill("The short one")
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Reader”.")
        made = library.load(library.find("Reader").id)
        assert [reference.transcript for reference in made.references] == ["The long one. The short one."]
        assert made.references[0].duration == pytest.approx(10.2 + 3.1, abs=0.8)
        assert made.consent is not None
        assert made.consent.who == "Grandma Ada"


def test_a_taken_name_costs_nothing_but_another_name(
    chromium: Browser, serve: Serve, library: VoiceLibrary, studio: Studio, engine: FakeEngine
) -> None:
    library.add(voice("Anna"))
    with visit(chromium, serve(engine, studio)) as page:
        open_tab(page, "New voice")
        upload(page, SPEECH)
        page.get_by_label("The words in this clip").fill("Hello there.")
        page.get_by_label("Name of the voice").fill("anna")
        page.get_by_label("has agreed that I clone it").check()
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-form-notice")).to_contain_text("There is already a voice called “Anna”.")
        expect(page.get_by_label("The words in this clip")).to_have_value("Hello there.")
        expect(page.locator(".rp-clip-line")).to_have_count(1)
        page.get_by_label("Name of the voice").fill("Anna 2")
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Anna 2”.")
        assert library.find("Anna 2").duration > 2


def test_by_keyboard_alone_in_german_over_plain_http(
    chromium: Browser, serve: Serve, library: VoiceLibrary, studio: Studio, engine: FakeEngine, tmp_path: Path
) -> None:
    samples, rate = soundfile.read(STORY, dtype="float32")
    soundfile.write(tmp_path / "leise.wav", samples * 0.002, rate, subtype="FLOAT")
    texts = Translations.load().languages["de"]
    url = serve(engine, studio).replace("127.0.0.1", PLAIN_HTTP_HOST)
    context = chromium.new_context(locale="de-DE")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(url)
    page.get_by_role("tab", name=texts["tab.new"], exact=True).click()
    expect(page.locator(".rp-say")).to_contain_text("Browser geben das Mikrofon nur an sichere Seiten weiter")
    expect(page.locator(".rp-say")).to_contain_text("http://localhost:")
    expect(page.get_by_role("button", name="Aufnehmen")).to_be_disabled()
    with page.expect_file_chooser() as choosing:
        page.get_by_role("button", name="Dateien auswählen").press("Enter")
    choosing.value.set_files(tmp_path / "leise.wav")
    expect(page.get_by_text("sehr leise")).to_be_visible()
    page.get_by_role("button", name="Lautstärke angleichen").press("Enter")
    expect(page.get_by_text("Dieser Clip ist gut zu gebrauchen.")).to_be_visible()
    page.get_by_label(texts["clip.words"]).press_sequentially("Hello")
    page.get_by_label(texts["new.name"]).press_sequentially("Änne")
    page.get_by_role("checkbox", name=re.compile("^Ich bin Änne und willige ein")).press("Space")
    page.get_by_role("button", name=texts["new.save"]).press("Enter")
    expect(page.locator("#rp-speak-notice")).to_contain_text("„Änne“ ist gespeichert.")
    assert library.find("Änne").consent is not None
    assert "__i18n__" not in page.locator("gradio-app").inner_html()
    context.close()


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1920, "light")])
def test_with_clips_nothing_sticks_out_and_axe_finds_nothing_serious(
    chromium: Browser, serve: Serve, studio: Studio, engine: FakeEngine, width: int, theme: str, tmp_path: Path
) -> None:
    samples, rate = soundfile.read(STORY, dtype="float32")
    soundfile.write(tmp_path / "quiet.wav", samples * 0.002, rate, subtype="FLOAT")
    url = f"{serve(engine, studio)}?__theme={theme}"
    with visit(chromium, url, viewport={"width": width, "height": 800}) as page:
        open_tab(page, "New voice")
        upload(page, STORY, tmp_path / "quiet.wav")
        page.get_by_label("The words in this clip").fill("Too few.")
        expect(page.get_by_text("too few words for the speech")).to_be_visible()
        expect(page.locator(".rp-verdict")).to_contain_text("would not be good")
        page.locator(".rp-fine summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page, context="#rp-tab-new").response["violations"]
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
