"""The New voice tab in a browser: recording, uploads, consent, saving and the first take."""

import base64
import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, expect

from storage import Storage, VoiceLibrary
from tests.engine.spoiled import silent_film
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import until
from tests.web.stage import PLAIN_HTTP_HOST
from tests.web.tabs.new_voice.test_clip_server import FORMATS, encode_clip
from tests.web.visiting import SERIOUS, begin_recording, open_tab, picker, violations, visit, wait_for
from web.folders import LOCK
from web.tabs.new_voice.clips import MAX_CLIPS
from web.tabs.new_voice.reading_texts import READING_TEXTS
from web.ui.i18n import Translations

Serve = Callable[..., str]
STORY = CLIP.with_name("flite_slt_story.flac")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(Script(pace=0.1))


def upload(page: Page, *files: Path) -> None:
    page.locator(".rp-file").set_input_files(files)
    expect(page.locator(".rp-say")).to_contain_text(f"{files[-1].name} is ready.")


def test_new_voice_speaks_four_actions_after_its_recording(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine
) -> None:
    with visit(chromium, serve(engine, storage), clock=True) as page:
        open_tab(page, "New voice")
        expect(page.locator(".rp-script-text")).to_have_text(READING_TEXTS[0])
        begin_recording(page, 20)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.locator(".rp-say")).to_contain_text("Recorded ")

        page.get_by_label("Name of the voice").fill("Anna")  # 1
        page.get_by_role("checkbox", name=re.compile("^I am Anna and agree")).check()  # 2
        page.get_by_role("button", name="Save voice").click()  # 3
        expect(page.get_by_role("tab", name="Speak")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Anna”.")
        expect(picker(page)).to_have_value("Anna")
        page.get_by_role("button", name="Speak", exact=True).click()  # 4
        wait_for(page, "player.played > 0")

        made = library.load(library.find("Anna").id)
        assert made.references[0].transcript == READING_TEXTS[0], "the transcript is the text that was read"
        assert made.consent is not None
        assert made.consent.sentence.startswith("I am Anna and agree")
        assert engine.asked[0][1] == made

        open_tab(page, "New voice")
        expect(page.locator(".rp-clips")).to_be_hidden()
        expect(page.get_by_label("Name of the voice")).to_have_value("")
        expect(page.get_by_role("checkbox", name=re.compile("^I am … and agree"))).not_to_be_checked()


def test_trimmed_clips_of_another_speaker_become_one_voice(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine
) -> None:
    with visit(chromium, serve(engine, storage)) as page:
        open_tab(page, "New voice")
        words = page.get_by_label("The words in this clip")
        upload(page, STORY)
        words.fill("The long one.")
        for _ in range(5):
            page.get_by_role("slider", name="Start").press("PageUp")
        upload(page, CLIP)
        expect(words).to_have_value("")
        page.get_by_label("Name of the voice").fill("Reader")
        page.get_by_label("Speaker").fill("Grandma Ada")
        agreed = page.get_by_role("checkbox", name=re.compile("Grandma Ada has agreed that I may clone it"))
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


def test_taken_name_keeps_the_form(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine
) -> None:
    library.add(voice("Anna"))
    with visit(chromium, serve(engine, storage)) as page:
        open_tab(page, "New voice")
        upload(page, CLIP)
        page.get_by_label("The words in this clip").fill("Hello there.")
        page.get_by_label("Name of the voice").fill("anna")
        page.get_by_label("has agreed that I may clone it").check()
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-form-notice")).to_contain_text("There is already a voice called “Anna”.")
        expect(page.get_by_label("The words in this clip")).to_have_value("Hello there.")
        expect(page.locator(".rp-clip-line")).to_have_count(1)
        page.get_by_label("Name of the voice").fill("Anna 2")
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Anna 2”.")
        assert library.find("Anna 2").duration > 2


def test_voice_is_made_by_keyboard_in_german_over_plain_http(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine, tmp_path: Path
) -> None:
    samples, rate = soundfile.read(STORY, dtype="float32")
    soundfile.write(tmp_path / "leise.wav", samples * 0.002, rate, subtype="FLOAT")
    texts = Translations.load().languages["de"]
    url = serve(engine, storage).replace("127.0.0.1", PLAIN_HTTP_HOST)
    with visit(chromium, url, locale="de-DE") as page:
        page.get_by_role("tab", name=texts["tab.new"], exact=True).click()
        expect(page.locator(".rp-say")).to_contain_text("Browser erlauben das Mikrofon nur auf sicheren Seiten")
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


def test_clips_fit_the_window_without_accessibility_violations(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine, tmp_path: Path
) -> None:
    samples, rate = soundfile.read(STORY, dtype="float32")
    soundfile.write(tmp_path / "quiet.wav", samples * 0.002, rate, subtype="FLOAT")
    url = f"{serve(engine, storage)}?__theme=dark"
    with visit(chromium, url, viewport={"width": 390, "height": 800}) as page:
        open_tab(page, "New voice")
        upload(page, STORY, tmp_path / "quiet.wav")
        page.get_by_label("The words in this clip").fill("Too few.")
        expect(page.get_by_text("too few words for the speech")).to_be_visible()
        expect(page.locator(".rp-verdict")).to_contain_text("would not sound good")
        page.locator(".rp-fine summary").click()
        for width in (390, 1920):  # dark first, then light
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert violations(page, "#rp-tab-new", SERIOUS) == []
            page.evaluate("document.body.classList.remove('dark')")
            page.set_viewport_size({"width": 1920, "height": 800})


# --- file formats, and files that are not audio

SUPPORTED = ("wav", "flac", "ogg", "opus", "mp3", "m4a", "webm")  # as listed in the README


def write_clip(path: Path) -> Path:
    """Write the fixture's clip in the format of the path's suffix; return the path."""
    kind = path.suffix[1:]
    if kind == "ogg":
        soundfile.write(path, *soundfile.read(CLIP), format="OGG", subtype="VORBIS")
    elif kind == "webm":
        path.write_bytes(without_duration(encode_clip(kind, *FORMATS[kind])))
    else:
        path.write_bytes(encode_clip(kind, *FORMATS[kind]))
    return path


def without_duration(webm: bytes) -> bytes:
    """Remux a file as browsers record it: without a duration, which is unknown when the recording starts."""
    file = io.BytesIO()
    with av.open(io.BytesIO(webm)) as source, av.open(file, "w", format="webm", options={"live": "1"}) as out:
        sound = out.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = sound
                out.mux(packet)
    return file.getvalue()


def drop(page: Page, file: Path) -> None:
    """Drop the file onto the recorder."""
    dropped = page.evaluate_handle(
        """([name, data]) => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([Uint8Array.from(atob(data), (byte) => byte.charCodeAt(0))], name));
            return dropped;
        }""",
        [file.name, base64.b64encode(file.read_bytes()).decode()],
    )
    page.locator(".rp-clip").dispatch_event("drop", {"dataTransfer": dropped})
    expect(page.locator(".rp-say")).to_contain_text(f"{file.name} is ready.")


def outline(page: Page) -> np.ndarray:
    """Return the painted share of each column of the waveform, 0 to 1, and clear it, so that it is not read twice."""
    columns: list[float] = page.evaluate("""async () => {
        await new Promise(requestAnimationFrame); // behind what is still to be drawn
        const canvas = document.querySelector(".rp-trim-wave canvas");
        const { width, height } = canvas;
        const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
        const painted = (x) => Array.from({ length: height }, (_, y) => data[(y * width + x) * 4 + 3]);
        canvas.width = width;
        return Array.from({ length: width }, (_, x) => painted(x).filter(Boolean).length / height);
    }""")
    return np.array(columns)


def test_each_supported_format_is_drawn_examined_and_saved(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine, tmp_path: Path
) -> None:
    outlines: dict[str, np.ndarray] = {}
    with visit(chromium, serve(engine, storage)) as page:
        lines = page.locator(".rp-clip-line")
        open_tab(page, "New voice")
        for kind in SUPPORTED:
            file = write_clip(tmp_path / f"memo.{kind}")
            if len(outlines) == MAX_CLIPS:
                page.locator(".rp-file").set_input_files(file)
                expect(page.locator(".rp-say")).to_have_text(
                    f"A voice can have at most {MAX_CLIPS} clips. Remove one first."
                )
                expect(lines).to_have_count(MAX_CLIPS)
                page.get_by_role("button", name=f"Remove memo.{SUPPORTED[0]}").click()
            take = drop if kind == "mp3" else upload
            take(page, file)
            expect(lines.last).to_contain_text(re.compile(rf"^memo\.{kind} · 3\.[12] s"))
            expect(page.locator(".rp-trim-said")).to_have_text(re.compile(r"^0\.00 s to 3\.[12]\d s: 3\.[12]\d s$"))
            expect(page.locator(".rp-verdict")).to_contain_text("This clip can be used, but could be better.")
            expect(page.get_by_text(re.compile(r"^The clip lasts (only )?3\.[12] s"))).to_be_visible()
            outlines[kind] = outline(page)
            page.get_by_label("The words in this clip").fill(f"As {kind}.")

        loud = outlines["wav"]
        assert loud.max() > 0.5, "the waveform is not flat"
        alike = {kind: np.corrcoef(drawn, loud)[0, 1] for kind, drawn in outlines.items()}
        assert min(alike.values()) > 0.9, f"the waveforms are alike: {alike}"

        expect(page.locator(".rp-together")).to_contain_text(f"{MAX_CLIPS} clips go into the voice")
        page.get_by_label("Name of the voice").fill("All of them")
        page.get_by_label("has agreed that I may clone it").check()
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “All of them”.")
        expect(picker(page)).to_have_value("All of them")
    (made,) = library.load(library.find("All of them").id).references
    assert made.transcript == " ".join(f"As {kind}." for kind in SUPPORTED[1:])
    assert made.duration == pytest.approx(MAX_CLIPS * 3.1, abs=1.0)


NOT_AUDIO = "This file is not audio that can be read: use wav, flac, ogg, opus, mp3, m4a or webm."
NO_SOUND = "The file holds no sound: record the clip again, or choose another file."
# Content of each file and its message. Neighbours differ, so that no message is mistaken for the next.
INVALID_FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "diary.wav": (lambda: b"Dear diary, today nobody said a word. " * 50, NOT_AUDIO),
    "film.mp4": (silent_film, NO_SOUND),
    "huge.wav": (lambda: bytes(51 * 2**20), "huge.wav is larger than 50 MB. A minute of sound is plenty."),
    "empty.wav": (bytes, NO_SOUND),
}


def text_without_message(page: Page) -> str:
    """Return the text of the page without the recorder's message."""
    return page.locator("body").inner_text().replace(page.locator(".rp-say").inner_text(), "", 1)


def uploads() -> list[Path]:
    """Return the uploaded files on the server."""
    return [path for path in Path(os.environ["GRADIO_TEMP_DIR"]).rglob("*") if path.is_file() and path.name != LOCK]


def test_invalid_files_are_reported_and_leave_the_form(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, engine: FakeEngine, tmp_path: Path
) -> None:
    with visit(chromium, serve(engine, storage)) as page:
        open_tab(page, "New voice")
        upload(page, write_clip(tmp_path / "memo.m4a"))
        words, name = page.get_by_label("The words in this clip"), page.get_by_label("Name of the voice")
        words.fill("Hello.")
        name.fill("Anna")
        page.get_by_role("checkbox", name=re.compile("^I am Anna and agree")).check()
        expect(page.get_by_text("too few words for the speech")).to_be_visible()
        before, lying = text_without_message(page), uploads()
        assert len(lying) == 1
        for rubbish, (data, sentence) in INVALID_FILES.items():
            (tmp_path / rubbish).write_bytes(data())
            page.locator(".rp-file").set_input_files(tmp_path / rubbish)
            expect(page.locator(".rp-say")).to_have_text(sentence)
            assert text_without_message(page) == before
            expect(words).to_have_value("Hello.")
            expect(name).to_have_value("Anna")
            expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
            until(lambda: uploads() == lying)  # rejected files are not kept
        page.locator(".rp-file").set_input_files([tmp_path / "diary.wav", write_clip(tmp_path / "more.flac")])
        expect(page.locator(".rp-clip-name")).to_have_count(2)
        expect(page.locator(".rp-say")).to_have_text(f"diary.wav: {NOT_AUDIO}")  # not only the result of the last file
        page.get_by_role("button", name="Remove more.flac").click()
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Anna”.")
        expect(picker(page)).to_have_value("Anna")
        assert library.load(library.find("Anna").id).references[0].duration == pytest.approx(3.1, abs=0.3)
