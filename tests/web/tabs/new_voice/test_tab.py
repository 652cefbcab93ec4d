"""The New voice tab in a browser: files, the doctor and consent; recordings are in test_saving_a_voice.py."""

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Dialog, Page, expect

from storage import Storage, VoiceLibrary
from tests.paths import CLIP
from tests.support.damaged_speech import RATE, WOMAN, beginning, silent_film
from tests.support.fake_engine import FakeEngine
from tests.support.waiting import until
from tests.web.stage import PLAIN_HTTP_HOST
from tests.web.tabs.new_voice.test_clip_server import FORMATS, encode_clip
from tests.web.visiting import SERIOUS, drop, picker, upload, violations, visit
from web.folders import LOCK
from web.ui.i18n import Translations

Serve = Callable[..., str]
STORY = CLIP.with_name("flite_slt_story.flac")
# Moves the start of the last clip by a key, then the focus to Save, without a pause. Returns the clip's line.
TRIM_AND_LEAVE = """() => {
    const handle = document.querySelector(".rp-handle-start");
    handle.focus();
    handle.dispatchEvent(new KeyboardEvent("keydown", { key: "PageUp", bubbles: true }));
    document.querySelector("#rp-save").focus();
    return [...document.querySelectorAll(".rp-clip-line")].at(-1).textContent;
}"""


def test_voices_are_made_by_keyboard_in_chinese_over_plain_http_and_of_several_formats_in_english(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine, tmp_path: Path
) -> None:
    """Clips and findings fit the window, dark and light, without accessibility violations."""
    soundfile.write(tmp_path / "quiet.wav", beginning(WOMAN, 6) * 0.002, RATE, subtype="FLOAT")
    texts = Translations.load().languages["zh-CN"]
    url = serve(engine, storage).replace("127.0.0.1", PLAIN_HTTP_HOST)
    with visit(chromium, f"{url}?__theme=dark", locale="zh-CN") as page:
        page.get_by_role("tab", name=texts["tab.new"], exact=True).click()
        expect(page.locator(".rp-say")).to_contain_text(texts["clip.plain_http"].partition("{")[0])
        expect(page.locator(".rp-say")).to_contain_text("http://localhost:")
        expect(page.get_by_role("button", name=texts["clip.record"])).to_be_disabled()
        check_language(page, "zh-CN")
        with page.expect_file_chooser() as choosing:
            page.get_by_role("button", name=texts["clip.choose"]).press("Enter")
        choosing.value.set_files([CLIP, tmp_path / "quiet.wav"])
        expect(page.get_by_text(texts["doctor.loudness_quiet"].partition("{")[0])).to_be_visible()
        expect(page.locator(".rp-verdict")).to_contain_text(texts["doctor.verdict_amber"])
        words = page.get_by_label(texts["clip.words"])
        words.fill("Too few.")
        expect(page.locator(".rp-words-findings li")).to_be_visible()
        page.locator(".rp-fine summary").press("Enter")
        for width, rules in ((390, ()), (1920, ("color-contrast",))):  # dark, then light, which changes nothing else
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert violations(page, "#rp-tab-new", SERIOUS, rules) == []
            page.evaluate("document.body.classList.remove('dark')")

        words.fill("")
        page.get_by_role("button", name=texts["doctor.fix_level"]).press("Enter")
        expect(page.get_by_text(texts["doctor.verdict_green"])).to_be_visible()
        words.press_sequentially("Hello")
        page.get_by_role("button", name=texts["clip.remove_of"].replace("{name}", CLIP.name)).press("Enter")
        page.get_by_label(texts["new.name"]).press_sequentially("Änne")
        page.get_by_role("checkbox", name=texts["new.consent"].replace("{who}", "Änne")).press("Space")
        page.get_by_role("button", name=texts["new.save"]).press("Enter")
        expect(page.locator("#rp-speak-notice")).to_contain_text(texts["notice.saved"].replace("{name}", "Änne"))
        assert library.find("Änne").consent is not None
        page.get_by_role("tab", name=texts["tab.new"], exact=True).click()
        expect(page.locator(".rp-clip-line")).to_have_count(0)  # else the page would ask
        page.get_by_label(texts["shell.language"], exact=True).first.select_option("en")
        new = page.get_by_role("tab", name="New voice", exact=True)
        expect(new).to_have_attribute("aria-selected", "true")  # the tab of before is opened again
        check_language(page, "en")
        save_formats(page, library, tmp_path)


def check_language(page: Page, language: str) -> None:
    """Check texts of the open tab New voice, and that a form without a clip is refused in the same language."""
    texts = Translations.load().languages[language]
    expect(page.locator("html")).to_have_attribute("lang", language)
    for key in ("clip.script", "new.consent_blank"):
        expect(page.get_by_text(texts[key], exact=True)).to_be_visible()
    expect(page.get_by_placeholder(texts["new.speaker_hint"])).to_be_visible()
    page.get_by_role("button", name=texts["new.save"]).click()
    expect(page.locator("#rp-form-notice")).to_contain_text(texts["notice.no_clip"])
    assert "__i18n__" not in page.locator("gradio-app").inner_html()
    menu = page.locator("#rp-tabs .overflow-menu > button")
    expect(menu).to_have_attribute("aria-label", texts["shell.more_tabs"])


# --- file formats, and files that are not audio

KINDS = ("wav", "flac", "mp3", "webm")  # the server reads all formats: see test_clip_server.py


def write_clip(path: Path) -> Path:
    """Write the fixture's clip in the format of the path's suffix; return the path."""
    kind = path.suffix[1:]
    clip = encode_clip(kind, *FORMATS[kind])
    path.write_bytes(without_duration(clip) if kind == "webm" else clip)
    return path


def without_duration(webm: bytes) -> bytes:
    """Remux a file as browsers record it: without a duration, which is unknown when the recording starts."""
    file = io.BytesIO()
    with av.open(io.BytesIO(webm), "r") as source, av.open(file, "w", format="webm", options={"live": "1"}) as out:
        sound = out.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = sound
                out.mux(packet)
    return file.getvalue()


def outline(page: Page) -> np.ndarray:
    """Return the painted share of each column of the waveform, 0 to 1, and clear it, so that it is not read twice.

    It is drawn some frames after its clip is shown.
    """
    columns: list[float] = page.evaluate("""async () => {
        const canvas = document.querySelector(".rp-trim-wave canvas");
        let data = [];
        for (let frame = 0; frame < 600 && !data.some(Boolean); frame += 1) {
            await new Promise(requestAnimationFrame);
            ({ data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height));
        }
        const { width, height } = canvas;
        const painted = (x) => Array.from({ length: height }, (_, y) => data[(y * width + x) * 4 + 3]);
        canvas.width = width;
        return Array.from({ length: width }, (_, x) => painted(x).filter(Boolean).length / height);
    }""")
    return np.array(columns)


NOT_AUDIO = "This file is not audio that can be read: use wav, flac, ogg, opus, mp3, m4a or webm."
NO_SOUND = "The file holds no sound: record the clip again, or choose another file."
# Content of each file and its message. Neighbours differ, so that no message is mistaken for the next.
INVALID_FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "diary.wav": (lambda: b"Dear diary, today nobody said a word. " * 50, NOT_AUDIO),
    "film.mp4": (silent_film, NO_SOUND),
}


def text_without_message(page: Page) -> str:
    """Return the text of the page without the recorder's message."""
    return page.locator("body").inner_text().replace(page.locator(".rp-say").inner_text(), "", 1)


def uploads() -> list[Path]:
    """Return the uploaded files on the server."""
    return [path for path in Path(os.environ["GRADIO_TEMP_DIR"]).rglob("*") if path.is_file() and path.name != LOCK]


def check_invalid_files(page: Page, folder: Path) -> None:
    """Each invalid file is reported, is not kept, and leaves the form as it is."""
    page.get_by_label("Name of the voice").fill("All of them")
    page.get_by_label("Speaker").fill("Grandma Ada")
    page.get_by_role("checkbox", name=re.compile("Grandma Ada has agreed that I may clone it")).check()
    expect(page.get_by_text("too few words for the speech")).to_be_visible()
    until(lambda: len(uploads()) == 1)  # those of the first voice are deleted
    before, lying = text_without_message(page), uploads()
    for rubbish, (data, sentence) in INVALID_FILES.items():
        (folder / rubbish).write_bytes(data())
        page.locator(".rp-file").set_input_files(folder / rubbish)
        expect(page.locator(".rp-say")).to_have_text(sentence)
        assert text_without_message(page) == before
        expect(page.get_by_label("Name of the voice")).to_have_value("All of them")
        expect(page.get_by_label("The words in this clip")).to_have_value("As wav.")
        expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
        until(lambda: uploads() == lying)


def decline_to_change_the_language(page: Page) -> None:
    """Choose a language, which asks because the page would be reloaded, and decline."""
    language = page.locator("#rp-switches").get_by_label("Language")
    questions: list[str] = []
    before = page.evaluate("document.cookie")

    def decline(dialog: Dialog) -> None:
        questions.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", decline)
    language.select_option("de")
    assert ["clips of a new voice" in question for question in questions] == [True]
    expect(language).to_have_value("en")
    assert page.evaluate("document.cookie") == before


def save_formats(page: Page, library: VoiceLibrary, folder: Path) -> None:
    """Each format is drawn and examined. Trimmed clips of another speaker become one voice."""
    outlines: dict[str, np.ndarray] = {}
    lines, say, verdict = (page.locator(part) for part in (".rp-clip-line", ".rp-say", ".rp-verdict"))
    words = page.get_by_label("The words in this clip")
    for kind in KINDS:
        file = write_clip(folder / f"memo.{kind}")
        if kind == "mp3":
            drop(page.locator(".rp-clip"), file)
            expect(say).to_contain_text(f"{file.name} is ready.")
        elif kind == "flac":
            page.locator(".rp-file").set_input_files([folder / "diary.wav", file])
            expect(lines).to_have_count(2)
            expect(say).to_have_text(f"diary.wav: {NOT_AUDIO}")  # not only the result of the last file
        else:
            upload(page, file)
        expect(lines.last).to_contain_text(re.compile(rf"^memo\.{kind} · 3\.[12]\ss"))
        expect(page.locator(".rp-trim-range")).to_have_text(re.compile(r"^0\.00\ss to 3\.[12]\d\ss: 3\.[12]\d\ss$"))
        outlines[kind] = outline(page)
        expect(verdict).to_contain_text("This clip can be used, but could be better.")
        expect(words).to_have_value("")
        if kind != KINDS[-1]:
            words.fill(f"As {kind}.")
        if kind == KINDS[0]:
            check_invalid_files(page, folder)

    expect(page.get_by_text(re.compile(r"^The clip lasts (only )?3\.[12]\ss"))).to_be_visible()
    loud = outlines["wav"]
    assert loud.max() > 0.5, "the waveform is not flat"
    alike = {kind: np.corrcoef(drawn, loud)[0, 1] for kind, drawn in outlines.items()}
    assert min(alike.values()) > 0.9, f"the waveforms are alike: {alike}"

    expect(page.locator(".rp-merged")).to_contain_text("4 clips go into the voice")
    decline_to_change_the_language(page)
    expect(lines).to_have_count(4)
    assert "memo.webm · 2.1\u00a0s of 3.1\u00a0s" in page.evaluate(TRIM_AND_LEAVE), (
        "the part is kept before Save is pressed"
    )
    save = page.get_by_role("button", name="Save voice")
    save.press("Enter")  # not the mouse: the doctor's report moves the button
    expect(page.locator("#rp-form-notice")).to_contain_text("Type the words that are spoken in “memo.webm”")
    expect(page.get_by_role("checkbox", name=re.compile("Grandma Ada has agreed"))).to_be_checked()
    words.fill("As webm")
    save.press("Enter")
    expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “All of them”.")
    expect(picker(page)).to_have_value("All of them")
    expect(lines).to_have_count(0)  # the form is cleared after the answer
    assert page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))"), "nothing would be lost"
    made = library.load(library.find("All of them").id)
    (reference,) = made.references
    assert reference.transcript == " ".join(f"As {kind}." for kind in KINDS)
    assert reference.duration == pytest.approx(12, abs=0.4), "four clips with pauses between them, one of them trimmed"
    assert made.consent is not None
    assert made.consent.who == "Grandma Ada"
