"""The Status tab in a browser."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, Page, Request, Route, expect

from engine.audio.output.encode import encode_audio
from engine.messages import UserMessage
from storage import Storage
from studio.engines.model_manager import ModelManager
from studio.engines.model_switch import ModelCatalog
from studio.provenance import provenance
from studio.provenance.provenance import Provenance
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, Script, buzz, voice
from tests.web import conftest
from tests.web.tabs.status.test_recogniser import Machine, transcribe_with_one_click
from tests.web.visiting import hold_response, open_tab, refusing, visit
from tests.web.visitor import Visitor

Serve = Callable[..., str]
NOTICES = {"fake": UserMessage("A fake engine that buzzes."), "large": UserMessage("Free for research only.")}


def called_function(request: Request) -> int:
    """The index of the function that a request of the page calls."""
    body: Any = request.post_data_json
    index: int = body["fn_index"]
    return index


def row(page: Page, name: str) -> Any:
    return page.locator(".rp-status-rows > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def test_recogniser_is_installed_model_is_loaded_and_named_and_status_is_polled_while_open(
    chromium: Browser, serve: Serve, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker of files works beside them."""
    anna = storage.voices.add(voice("Anna")).id

    def load(model: str, _report: object) -> FakeEngine:
        made = FakeEngine(Script(pace=0.01, notice=str(NOTICES[model])))
        made.name, made.codec_fingerprint = model, f"codec of {model}"
        return made

    choice = ModelCatalog(NOTICES, lambda *_: None, load)  # type: ignore[arg-type]
    monkeypatch.setattr(conftest, "ModelManager", lambda engine: ModelManager(engine, choice))
    machine = Machine(monkeypatch)
    url = serve(load("fake", None), storage, "machine")
    with visit(chromium, url, clock=True) as page:
        transcribe_with_one_click(page, machine)
        expect(row(page, "Model")).to_have_text("fake")
        expect(row(page, "Speaking now")).to_have_text("0 of 1")
        factor = row(page, "Real-time factor of the last takes")
        expect(factor).to_have_text("nothing has been spoken yet")
        visitor = Visitor(url)
        visitor.arrive()
        assert visitor.speak("Hello there.", anna)["stop_reason"] == "end"
        with page.expect_request(re.compile("/run/predict")) as polled:
            page.clock.fast_forward(15_000)
        expect(factor).to_contain_text("as fast as real time")
        page.get_by_label("Another model").click()
        page.get_by_role("option", name="large").click()
        expect(page.locator("#rp-model-licence")).to_have_text("Free for research only.")
        expect(row(page, "Model")).to_have_text("fake")
        page.get_by_role("button", name="Load model").click()
        expect(page.locator("#rp-status-notice")).to_have_text("large is ready.")
        expect(row(page, "Model")).to_have_text("large")
        expect(page.locator("#rp-heading")).to_contain_text("Model large on cpu")

        monkeypatch.setattr(provenance, "watermark_installed", lambda: False)
        file = encode_audio(
            buzz(0, SAMPLE_RATE, 120), SAMPLE_RATE, "mp3", Provenance.from_take("large", anna, 7).tags()
        )
        found, field = page.locator(".rp-check-result"), page.locator(".rp-checker input")
        text = FilePayload(name="x.txt", mimeType="text/plain", buffer=b"no")
        found.evaluate("""(found) => {
            window.found = "";
            new MutationObserver(() => (window.found += found.textContent)).observe(found, { childList: true });
        }""")
        uploads: list[Route] = []
        page.route("**/gradio_api/upload**", lambda route: route.continue_() if uploads else uploads.append(route))
        field.set_input_files(text)  # it is cancelled when the next one is chosen, whose answer then comes too late
        while not uploads:
            page.wait_for_timeout(20)
        with hold_response(page, "is not audio", lambda: field.set_input_files(text)):
            field.set_input_files({"name": "it.mp3", "mimeType": "audio/mpeg", "buffer": file})
            expect(found).to_contain_text("Made with Reprise")
            uploads[0].abort()
        expect(found.get_by_text("Voice: Anna.")).to_be_visible()
        other = encode_audio(buzz(0, SAMPLE_RATE, 120), SAMPLE_RATE, "wav")
        field.set_input_files({"name": "x.wav", "mimeType": "audio/wav", "buffer": other})
        expect(found).to_contain_text("No sign of Reprise")
        assert "is not audio" not in page.evaluate("window.found"), "a late answer about another file is dropped"
        with hold_response(page, "is not audio", lambda: field.set_input_files(text)):
            expect(found).to_contain_text("Checking")
            for event in ("gone", "back"):
                detail = "{ detail: { anew: false } }"
                page.evaluate(f"document.dispatchEvent(new CustomEvent('reprise:{event}', {detail}))")
            expect(found).to_be_empty()  # the answer may be lost
        expect(found).to_contain_text("is not audio")
        with refusing(page, "x.txt"):
            field.set_input_files(text)
        expect(found).to_be_empty()
        page.route("**/upload", lambda route: None)  # it is never answered
        field.set_input_files(text)
        page.locator(".rp-check-drop").evaluate("""(area) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([new ArrayBuffer(51 * 2 ** 20)], "large.wav"));
            area.dispatchEvent(new DragEvent("drop", { dataTransfer }));
        }""")
        expect(found).to_contain_text("“large.wav” is larger than")
        expect(page.get_by_role("progressbar", name="Uploading “x.txt”")).to_be_hidden()
        field.set_input_files(text)
        page.locator(".rp-checker").get_by_role("button", name="Cancel").click()
        expect(found).to_have_text("The upload was cancelled.")
        expect(page.get_by_role("progressbar", name="Uploading “x.txt”")).to_be_hidden()
        page.unroute("**/upload")

        status = called_function(polled.value)
        open_tab(page, "Speak")
        page.clock.fast_forward(15_000)
        page.wait_for_timeout(500)  # earlier requests have been sent by now
        asked: list[str] = []

        def note(request: Request) -> None:
            if "/run/predict" in request.url and called_function(request) == status:
                asked.append(request.url)

        page.on("request", note)
        page.clock.fast_forward(60_000)
        page.wait_for_timeout(500)
        assert asked == []
