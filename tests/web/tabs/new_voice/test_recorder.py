"""The recorder alone on a page: recording, uploads, trimming, the doctor, words, mouse and keyboard."""

import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, Route, expect

from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine
from tests.support.waiting import until
from tests.web.stage import TIMEOUT, open_page, serve_component
from tests.web.visiting import begin_recording, skip_countdown, wait_for_recording
from web.tabs.new_voice import views
from web.tabs.new_voice.clip_server import PER_ADDRESS, ClipServer
from web.tabs.new_voice.clips import MAX_CLIPS, chosen_clips
from web.ui.components import clip_input
from web.ui.i18n import Translations

SCRIPT = "The quick brown fox jumps over the lazy dog."
OTHER = "Say this instead."
INVITATION = "8 to 15 seconds"
LONGEST = 20  # seconds of a clip, instead of 90: long ones cost the browser and the doctor time
STORY = CLIP.with_name("flite_slt_story.flac")
TRANSLATIONS = Translations.load()
expect.set_options(timeout=TIMEOUT)
pytestmark = pytest.mark.slow


def build(folder: str) -> None:
    def show(value: Any) -> str:
        return json.dumps(value or None)

    def doctor(value: Any) -> Any:
        value["clips"][0].update(start=0.5, end=1.5)
        return {"chosen": 0, "clips": value["clips"][:1]}

    private: dict[str, Any] = {"preprocess": False, "show_progress": "hidden", "queue": False}
    context: Any = SimpleNamespace(engine=FakeEngine(), folder=Path(folder), texts=TRANSLATIONS.texts)
    clips = clip_input(ClipServer(context).functions(), scripts=[SCRIPT, OTHER], longest=LONGEST)
    changes = gr.Textbox(label="Value", elem_id="value")
    clips.change(show, clips, changes, **private)
    gr.Button("Best part").click(doctor, clips, clips, **private)
    gr.Button("Empty").click(lambda: None, None, clips, **private)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_component(build) as address:
        yield address


@pytest.fixture(scope="module")
def stage(chromium: Browser, url: str) -> Iterator[Page]:
    with open_page(chromium, url) as opened_page:
        opened_page.clock.install()  # time passes normally; `begin_recording` skips the countdown
        yield opened_page


@pytest.fixture
def page(stage: Page) -> Page:
    """The page of all tests, emptied of clips. It is reloaded only if a test left more than clips and a refusal."""
    stage.unroute_all()
    if stage.locator(".rp-clip-line").count():
        stage.get_by_role("button", name="Empty").click()
        expect(stage.locator(".rp-clips")).to_be_hidden()
    if stage.locator(".rp-clip").get_attribute("data-state") not in ("empty", "refused"):
        stage.reload()
    expect(stage.locator(".rp-record")).to_be_enabled()
    return stage


def expect_message(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".rp-say")).to_contain_text(text)


def upload(page: Page, *files: Path | str) -> None:
    page.locator(".rp-file").set_input_files([str(file) for file in files])


def value(page: Page, part: str) -> Any:
    """Wait until the component's value contains `part`; return the value as the server received it."""
    field = page.locator("#value textarea")
    expect(field).to_have_value(re.compile(re.escape(part)))
    return json.loads(field.input_value())


def stop(page: Page) -> None:
    page.get_by_role("button", name="Stop", exact=True).click()
    expect_message(page, "Recorded ")


def loudness(samples: np.ndarray, rate: int) -> float:
    """Return the speech level in decibels: the mean power of the loudest twentieth of the 20 ms pieces."""
    size = rate // 50
    pieces = samples[: len(samples) // size * size].reshape(-1, size)
    power = np.sort((pieces.astype(np.float64) ** 2).mean(axis=1))
    return float(10 * np.log10(power[-max(1, len(power) // 20) :].mean()))


def test_recording_matches_the_microphone_signal(page: Page) -> None:
    expect(page.locator(".rp-script-text")).to_have_text(SCRIPT)
    page.evaluate("document.addEventListener('reprise:recording', () => (window.announced = true), { once: true })")
    page.get_by_role("button", name="Record", exact=True).click()
    counted = []
    for left in (3, 2, 1):
        expect(page.locator(".rp-countdown")).to_have_text(str(left))
        counted.append(left)
        page.clock.fast_forward(1000)
    assert counted == [3, 2, 1]
    assert page.evaluate("window.announced"), "other sound stops"
    expect(page.get_by_role("meter")).to_be_visible()
    wait_for_recording(page, 33)  # the whole clip, which the microphone repeats
    expect(page.get_by_role("meter")).not_to_have_attribute("aria-valuenow", "-60")
    page.keyboard.press("Enter")  # the focus stays on the button
    expect_message(page, "Recorded ")
    made = value(page, "Recording 1")["clips"][0]
    assert (made["name"], made["words"], made["start"]) == ("Recording 1", SCRIPT, 0)
    info = soundfile.info(made["path"])
    assert (info.format, info.subtype, info.channels) == ("WAV", "PCM_16", 1)
    heard, rate = soundfile.read(made["path"])
    assert rate in (44_100, 48_000)
    assert made["end"] == pytest.approx(len(heard) / rate, abs=0.01)
    played, played_rate = soundfile.read(CLIP)
    assert loudness(heard, rate) == pytest.approx(loudness(played, played_rate), abs=1.0)
    assert 20 * np.log10(np.abs(heard).max() / np.abs(played).max()) == pytest.approx(0, abs=1.0)


def test_clips_are_recorded_again_played_and_removed(page: Page, tmp_path: Path) -> None:
    """During an upload, clips cannot be recorded again."""
    speech, rate = soundfile.read(CLIP, dtype="int16")
    soundfile.write(tmp_path / CLIP.name, speech[: rate // 2], rate)  # it is played to its end
    page.locator(".rp-script summary").click()
    begin_recording(page)
    stop(page)
    page.locator(".rp-script summary").click()
    choose = page.get_by_role("button", name="Choose files")
    again = page.get_by_role("button", name=re.compile("^Record again: Recording"))
    expect(again).to_be_enabled()
    held: list[Route] = []
    sending = re.compile("/upload")
    page.route(sending, lambda route: held.append(route))
    choose.focus()
    with page.expect_request(sending):
        upload(page, tmp_path / CLIP.name)
    expect_message(page, "Uploading")
    expect(again).to_be_disabled()
    held[0].continue_()
    expect_message(page, "flite_slt.flac is ready.")
    expect(again).to_be_enabled()
    page.unroute_all()
    expect(choose).to_be_focused()
    both = value(page, "flite_slt")
    names = [clip["name"] for clip in both["clips"]]
    assert re.fullmatch(r"Recording [0-9]+", names[0])
    assert names[1:] == ["flite_slt.flac"]
    assert both["chosen"] == 1
    assert both["clips"][0]["words"] == "", "a closed script gives no words"
    expect(page.locator(".rp-script-text")).to_be_hidden()  # it is not what the file says

    page.locator(".rp-clip-name").first.click()
    page.get_by_label("The words in this clip").fill("My own words.")
    begin_recording(page, 5, f"Record again: {names[0]}")
    stop(page)
    earlier = re.compile(re.escape(both["clips"][0]["path"]))
    expect(page.locator("#value textarea")).not_to_have_value(earlier)
    made = value(page, '"chosen": 0')
    assert [clip["name"] for clip in made["clips"]] == names
    assert made["clips"][0]["words"] == "My own words.", "they are read again"
    page.locator(".rp-script summary").click()
    assert made["clips"][0]["seconds"] >= 0.5

    play = page.locator(".rp-trim-play")
    page.get_by_role("button", name="Listen to flite_slt.flac").click()
    expect(play).to_have_text("Stop")
    expect(play).to_have_text("Play selection")
    page.get_by_role("button", name=f"Remove {names[0]}").press("Enter")
    left = value(page, '"chosen": 0, "clips": [{"path": "' + both["clips"][1]["path"])
    assert [clip["name"] for clip in left["clips"]] == ["flite_slt.flac"]
    expect(page.get_by_role("button", name="Remove flite_slt.flac")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#value textarea")).to_have_value("null")
    expect_message(page, INVITATION)
    expect(choose).to_be_focused()


RECORDING_MARK = "html[data-rp-recording]"


def expect_question(page: Page) -> None:
    """Expect the browser to ask before the page is closed, and stay."""
    with page.expect_event("dialog") as asked:
        page.close(run_before_unload=True)
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()


def leaving_is_held(page: Page) -> bool:
    """Return whether the browser would ask now."""
    held: bool = page.evaluate("!dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    return held


def test_recording_is_controlled_by_buttons_and_keys(page: Page) -> None:
    """The document is marked while the microphone is open. Leaving the page asks first while there is a recording."""
    record, countdown = page.get_by_role("button", name="Record", exact=True), page.locator(".rp-countdown")
    assert page.locator(RECORDING_MARK).count() == 0
    ways: tuple[Callable[[], None], ...] = (
        page.get_by_role("button", name="Cancel").click,
        lambda: page.keyboard.press("Escape"),
    )
    for cancel in ways:
        record.click()
        expect(countdown).to_have_text("3")
        expect(page.locator(RECORDING_MARK)).to_have_count(1)
        for needless in (".rp-choose", ".rp-or", ".rp-script-foot"):
            expect(page.locator(needless).first).to_be_hidden()
        cancel()
        expect_message(page, INVITATION)
        expect(page.locator(".rp-clips")).to_be_hidden()
        expect(page.locator(RECORDING_MARK)).to_have_count(0)

    page.get_by_role("button", name="Another one").click()
    expect(page.locator(".rp-script-text")).to_have_text(OTHER)
    page.get_by_role("button", name="Another one").click()
    expect(page.locator(".rp-script-text")).to_have_text(SCRIPT)

    record.press("Enter")
    skip_countdown(page)
    wait_for_recording(page, 3)
    expect(page.locator(RECORDING_MARK)).to_have_count(1)
    expect_question(page)
    page.keyboard.press("Escape")
    expect_message(page, re.compile(r"^Recorded [0-9]"))
    expect(page.locator(RECORDING_MARK)).to_have_count(0)
    expect(page.get_by_role("button", name="Choose files")).to_be_enabled()
    expect_question(page)
    assert leaving_is_held(page)
    page.get_by_role("button", name=re.compile("^Remove")).click()
    expect_message(page, INVITATION)
    assert not leaving_is_held(page)


def test_recording_that_the_server_refuses_is_kept_and_uploaded_again(page: Page) -> None:
    page.evaluate("""() => {
        const { XMLHttpRequest } = window;
        window.admit = () => (window.XMLHttpRequest = XMLHttpRequest);
        window.XMLHttpRequest = class {
            upload = {};
            status = 429;
            responseText = JSON.stringify({ error: "There is no room." });
            open() {}
            send() {
                setTimeout(() => { this.onload(); this.onloadend(); });
            }
        };
    }""")
    begin_recording(page)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect_message(page, "There is no room. The recording is kept in this page.")
    again = page.get_by_role("button", name=re.compile("^Upload Recording [0-9]+ again"))
    again.click()
    expect(again).to_be_enabled()
    expect_message(page, "There is no room. The recording is kept in this page.")
    assert leaving_is_held(page)
    page.evaluate("() => { window.admit(); }")
    again.click()
    expect_message(page, "Recorded ")
    expect(again).to_be_hidden()
    assert value(page, "Recording")["clips"][0]["words"] == SCRIPT

    cancel = page.locator(".rp-send-cancel")
    expect(cancel).to_have_css("margin-top", "8px")  # not against the line above
    expect(cancel).to_be_hidden()
    page.route("**/upload", lambda route: None)  # it is never answered
    begin_recording(page, button="Record another")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(cancel).to_be_visible()
    cancel.press("Enter")
    expect_message(page, "The upload was cancelled. The recording is kept in this page.")
    expect(cancel).to_be_hidden()
    expect(page.locator(".rp-clip button:focus")).to_be_enabled()
    page.get_by_role("button", name=re.compile("^Remove Recording")).last.click()
    upload(page, CLIP)
    cancel.click()
    expect_message(page, "The upload was cancelled.")
    expect(page.locator(".rp-clip-line")).to_have_count(1)


def test_trimming_by_keyboard_mouse_and_server(page: Page) -> None:
    upload(page, CLIP)
    start, end = page.get_by_role("slider", name="Start"), page.get_by_role("slider", name="End")
    expect(end).to_have_attribute("aria-valuenow", "3.13")
    for key, time in (("Shift+ArrowRight", "0.10"), ("PageUp", "1.10")):
        start.press(key)
        expect(start).to_have_attribute("aria-valuenow", time)
    end.press("Shift+ArrowLeft")
    assert value(page, '"start": 1.1, "end": 3.025')["chosen"] == 0
    expect(page.locator(".rp-trim-range")).to_have_text("1.10 s to 3.03 s: 1.92 s of 3.13 s")
    clip = value(page, '"start": 1.1, "end": 3.025')
    (chosen,) = chosen_clips(clip, Path(clip["clips"][0]["path"]).parents[1])
    assert isinstance(audio := chosen.audio(), bytes)
    assert soundfile.info(io.BytesIO(audio)).duration == pytest.approx(1.925, abs=0.001)
    start.press("End")
    expect(start).to_have_attribute("aria-valuetext", re.compile(r"^2\.9\d seconds$"))

    area = page.locator(".rp-trim-wave").bounding_box()
    assert area is not None
    across = [area["x"] + area["width"] * share for share in (0.9, 0.25)]
    page.mouse.move(across[0], area["y"] + 30)
    page.mouse.down()
    page.mouse.move(across[1], area["y"] + 30, steps=5)
    page.mouse.up()
    expect(start).to_be_focused()
    expect(start).to_have_attribute("aria-valuenow", re.compile(r"^0\.7[78]$"))
    assert value(page, '"start": 0.7')["clips"][0]["end"] == 3.025
    expect(page.locator(".rp-clip-name")).to_contain_text("of 3.1 s")

    page.get_by_role("button", name="Best part").click()
    expect(start).to_have_attribute("aria-valuenow", "0.50")
    expect(end).to_have_attribute("aria-valuenow", "1.50")
    page.get_by_role("button", name="Use the whole clip").click()
    assert value(page, '"start": 0, "end": 3.125')["clips"][0]["seconds"] == 3.125
    page.get_by_role("button", name="Empty").click()
    expect(page.locator(".rp-trim")).to_be_hidden()


def waveform_is_drawn(page: Page) -> bool:
    dots: bool = page.evaluate("""() => {
        const canvas = document.querySelector(".rp-trim-wave canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value) => value);
    }""")
    return dots


def test_server_draws_files_the_browser_cannot_decode(page: Page, tmp_path: Path) -> None:
    samples, rate = soundfile.read(CLIP)
    soundfile.write(tmp_path / "tape.aiff", samples, rate)
    upload(page, tmp_path / "tape.aiff")
    expect_message(page, "tape.aiff is ready.")
    expect(page.get_by_role("slider", name="End")).to_have_attribute("aria-valuenow", "3.13")
    expect(page.get_by_role("button", name="Listen to tape.aiff")).to_be_disabled()
    expect(page.locator(".rp-trim-silent")).to_be_visible()
    until(lambda: waveform_is_drawn(page))
    assert value(page, "tape.aiff")["clips"][0]["seconds"] == 3.125


def test_unreadable_long_and_large_files_are_rejected(page: Page, tmp_path: Path) -> None:
    (tmp_path / "song.mp3").write_bytes(b"these are no sounds" * 100)
    upload(page, tmp_path / "song.mp3")
    expect_message(page, "This file is not audio that can be read: use wav, flac")
    soundfile.write(tmp_path / "book.wav", np.zeros(8_000 * 601, np.int16), 8_000, subtype="PCM_U8")
    upload(page, tmp_path / "book.wav")
    expect_message(page, "book.wav is longer than 10 minutes.")
    (tmp_path / "huge.wav").write_bytes(b"\0" * (51 * 2**20))
    upload(page, tmp_path / "huge.wav")
    expect_message(page, "huge.wav is larger than 50 MB. A minute of sound is plenty.")
    expect(page.locator(".rp-clips")).to_be_hidden()


def test_clip_is_a_part_of_a_longer_file(page: Page, tmp_path: Path) -> None:
    speech, rate = soundfile.read(CLIP, dtype="float32")
    soundfile.write(tmp_path / "interview.flac", np.resize(speech, (LONGEST + 4) * rate), rate)
    upload(page, tmp_path / "interview.flac")
    expect_message(page, "interview.flac lasts 0:24. This is its part from 0:00 to 0:20")
    words = page.get_by_role("textbox", name="The words in this clip")
    words.fill("What was said first.")
    assert value(page, "What was said first.")["clips"][0]["seconds"] == LONGEST
    page.get_by_role("button", name="Later part").dblclick()
    expect_message(page, "interview.flac lasts 0:24. This is its part from 0:04 to 0:24")
    expect(page.locator(".rp-clip-line")).to_have_count(1)
    expect(words).to_have_value("")
    expect(page.get_by_role("button", name="Later part")).to_be_hidden()
    expect(page.get_by_role("slider", name="Start")).to_be_focused()
    page.get_by_role("button", name="Earlier part").click()
    expect_message(page, "from 0:00 to 0:20")
    expect(words).to_have_value("What was said first.")


REFUSE = """(name) => {
    navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", name));
}"""


def test_denied_missing_or_unplugged_microphone_is_explained(page: Page) -> None:
    """What was recorded before the microphone was unplugged is kept."""
    for error, sentence in (
        ("NotAllowedError", "Allow it next to the address bar"),
        ("NotFoundError", "No microphone was found"),
        ("NotReadableError", "in use by another program"),
    ):
        page.evaluate(REFUSE, error)
        page.get_by_role("button", name="Record", exact=True).click()
        expect_message(page, sentence)
        expect(page.locator(".rp-record")).to_be_enabled()

    page.evaluate("""() => {
        delete navigator.mediaDevices.getUserMedia;
        const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wanted) => (window.stream = await ask(wanted));
        window.unplug = () => window.stream.getTracks()[0].dispatchEvent(new Event("ended"));
    }""")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator(".rp-countdown")).to_have_text("3")
    page.evaluate("unplug()")
    expect_message(page, "The microphone was unplugged")
    begin_recording(page, 5)
    page.evaluate("unplug()")
    expect_message(page, "Recorded ")
    expect_message(page, "The microphone was unplugged")
    assert value(page, "Recording ")["clips"][0]["seconds"] >= 0.4
    page.evaluate("delete navigator.mediaDevices.getUserMedia")


# --- the doctor, the words, and reconstruction


def expect_verdict(page: Page, text: str) -> None:
    expect(page.locator(".rp-verdict")).to_contain_text(text)


def wait_until_deleted(page: Page, path: Path) -> None:
    """Wait until the server has deleted the file."""
    for _ in range(200):
        if not path.exists():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{path} is still there")


def write_story(path: Path, gain: float = 1.0, silence: float = 0.0, seconds: int = 15) -> Path:
    """Write the first seconds of the story at another gain, between two silences."""
    samples, rate = soundfile.read(STORY, dtype="float32")
    quiet = np.zeros(int(silence * rate), np.float32)
    soundfile.write(path, np.concatenate([quiet, samples[: seconds * rate] * gain, quiet]), rate, subtype="FLOAT")
    return path


def test_finding_is_shown_with_a_one_click_repair(page: Page, tmp_path: Path) -> None:
    upload(page, write_story(tmp_path / "quiet.wav", gain=0.002, silence=5, seconds=6))
    expect_verdict(page, "This clip can be used, but could be better.")
    worst = page.locator(".rp-doctor > .rp-findings > li").first
    assert worst.get_attribute("data-light") == "amber"
    expect(worst.locator(".rp-light")).to_have_text("!")
    expect(worst.locator(".rp-light")).to_have_attribute("aria-hidden", "true")
    expect(worst.locator(".rp-unseen")).to_have_text("Could be better:")
    expect(page.get_by_text("The clip is quiet")).to_be_visible()

    page.get_by_role("button", name="Trim the silence").click()
    expect(page.get_by_role("slider", name="Start")).to_have_attribute("aria-valuenow", re.compile("^5[.]"))
    expect(page.get_by_role("button", name="Trim the silence")).to_be_hidden()
    expect(page.locator(".rp-verdict")).to_be_focused()
    trimmed = value(page, '"start": 5')["clips"][0]

    usual = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 500})
    level = page.get_by_role("button", name="Level the loudness")
    level.scroll_into_view_if_needed()
    expect(page.locator(".rp-say")).not_to_be_in_viewport()
    level.click()
    expect_message(page, "quiet.wav is repaired.")
    expect(page.locator(".rp-say")).to_be_in_viewport(ratio=1)
    assert usual is not None
    page.set_viewport_size(usual)
    expect_verdict(page, "This clip is good to use.")
    repaired = value(page, '"start": 0')["clips"][0]
    assert repaired["path"] != trimmed["path"]
    assert repaired["seconds"] == pytest.approx(trimmed["end"] - trimmed["start"], abs=0.01)
    expect(page.locator(".rp-clip-line")).to_have_count(1)

    page.get_by_role("button", name="Undo the repair of quiet.wav").click()
    expect_verdict(page, "could be better")
    assert value(page, trimmed["path"])["clips"][0] == trimmed
    wait_until_deleted(page, Path(repaired["path"]))

    held: list[Route] = []  # the upload of the repaired clip
    sending = re.compile("/upload")
    page.route(sending, lambda route: held.append(route))
    with page.expect_request(sending):
        page.get_by_role("button", name="Level the loudness").click()
    page.get_by_role("button", name="Remove quiet.wav").click()
    with page.expect_response(sending) as answer:
        held[0].continue_()
    wait_until_deleted(page, Path(answer.value.json()[0]))
    expect(page.locator(".rp-clip-line")).to_have_count(0)
    expect(page.locator(".rp-script-text")).to_be_visible()  # it was folded when the file was added

    def record() -> None:
        begin_recording(page)
        page.get_by_role("button", name="Stop", exact=True).click()

    for number, add in enumerate((lambda: upload(page, CLIP), record), 1):
        with page.expect_request(sending):
            add()
        page.evaluate("document.dispatchEvent(new CustomEvent('reprise:forgotten'))")  # all data was deleted
        with page.expect_response(sending) as answer:
            held[number].continue_()
        wait_until_deleted(page, Path(answer.value.json()[0]))
        expect(page.locator(".rp-clip-line")).to_have_count(0)


def test_best_part_is_chosen_and_words_written_before_a_later_change_are_pointed_out(
    page: Page, tmp_path: Path
) -> None:
    upload(page, write_story(tmp_path / "long.wav", silence=2))
    field = page.get_by_label("The words in this clip")
    field.fill("On Thursday my cousin Joyce brought fresh oranges, a jar of plum jam and a huge yellow kite. " * 2)
    best = page.get_by_role("button", name="Choose the best 8–15 s for me")
    best.click()
    start, end = page.get_by_role("slider", name="Start"), page.get_by_role("slider", name="End")
    expect(start).to_have_attribute("aria-valuenow", re.compile("^2[.]"))
    expect(best).to_be_hidden()
    length = float(str(end.get_attribute("aria-valuenow"))) - 2.1
    assert 8 <= length <= 15

    end.press("PageDown")
    moved = page.get_by_text("The selection changed after these words were written")
    expect(moved).to_be_visible()
    field.fill("On Thursday my cousin Joyce brought fresh oranges, a jar of plum jam")
    expect(moved).to_be_hidden()


def test_all_of_many_files_are_examined_up_to_the_limit(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examine, all_added, examined = views.examine_part, threading.Event(), list[dict[str, Any]]()

    def hold_and_examine(*part: Any) -> dict[str, Any]:
        all_added.wait(30)
        examined.append(examine(*part))
        return examined[-1]

    monkeypatch.setattr(views, "examine_part", hold_and_examine)
    assert MAX_CLIPS > PER_ADDRESS
    for number in range(MAX_CLIPS + 1):
        (tmp_path / f"{number}.flac").write_bytes(CLIP.read_bytes())
    upload(page, *sorted(tmp_path.iterdir()))
    expect_message(page, f"{MAX_CLIPS}.flac: A voice can have at most {MAX_CLIPS} clips. Remove one first.")
    expect(page.locator(".rp-clip-line")).to_have_count(MAX_CLIPS)
    page.wait_for_timeout(500)  # for a request to be refused: choosing its clip would repeat it
    all_added.set()
    until(lambda: len(examined) == MAX_CLIPS)
    expect_verdict(page, "This clip can be used")


def test_words_belong_to_their_clip_and_to_its_verdict(page: Page) -> None:
    upload(page, CLIP)
    field = page.get_by_label("The words in this clip")
    field.fill("\n".join("one two three four five six".split()))
    assert field.evaluate("(field) => field.scrollHeight <= field.clientHeight"), "the field grows with its text"
    field.fill("line\n" * 30)
    assert field.evaluate("(field) => field.clientHeight < innerHeight / 2")
    field.fill("The first.")
    upload(page, STORY)
    expect_message(page, "flite_slt_story.flac is ready.")
    expect(field).to_have_value("")

    expect_verdict(page, "This clip is good to use.")
    field.fill("word " * 90)
    expect_verdict(page, "The sound is good. Check the words.")
    expect(page.locator(".rp-verdict .rp-light")).not_to_have_attribute("data-light", "green")
    expect(page.locator(".rp-fine summary")).to_have_text("10 of 10 checks passed")
    field.fill("")
    expect_verdict(page, "This clip is good to use.")

    field.fill("The second.")
    page.get_by_role("button", name=re.compile("^flite_slt.flac")).click()
    expect(field).to_have_value("The first.")
    assert [clip["words"] for clip in value(page, "The second.")["clips"]] == ["The first.", "The second."]
    expect(page.locator(".rp-merged")).to_contain_text("2 clips go into the voice, 18.3 s in all.")
    upload(page, STORY)
    expect(page.locator(".rp-merged")).to_contain_text("a voice uses at most 28 s. Left out: “flite_slt_story.flac”.")


def test_other_playback_stops_the_reconstruction_and_its_errors_do_not_replace_the_recording_message(
    page: Page,
) -> None:
    upload(page, STORY)
    expect_message(page, "is ready.")
    Path(value(page, STORY.name)["clips"][0]["path"]).unlink()  # the server needed the room
    page.get_by_role("button", name="Hear what the model hears").press("Enter")
    stop_playing = page.get_by_role("button", name="Stop playing")
    expect(stop_playing).to_be_focused()  # it waited, and kept the focus
    page.get_by_role("button", name="Play selection").click()
    expect(stop_playing).to_be_hidden()
    expect(page.locator(".rp-trim-play")).to_have_text("Stop")
    page.get_by_role("button", name="Hear what the model hears").click()
    expect(stop_playing).to_be_visible()
    expect(page.locator(".rp-trim-play")).to_have_text("Play selection")
    stop_playing.click()
    expect(page.get_by_role("button", name="Hear what the model hears")).to_be_enabled()

    page.get_by_role("slider", name="Start").press("ArrowRight")  # this part has not been reconstructed yet
    expect(page.get_by_role("slider", name="Start")).to_have_attribute("aria-valuenow", "0.01")
    held: list[Route] = []

    def hold_reconstruction(route: Route) -> None:
        held.append(route) if "preview_codec" in (route.request.post_data or "") else route.continue_()

    page.route("**/component_server/**", hold_reconstruction)
    with page.expect_request(lambda request: "preview_codec" in (request.post_data or "")):
        page.get_by_role("button", name="Hear what the model hears").click()
    begin_recording(page, 0, "Record another")
    page.locator(".rp-say").evaluate("""(say) => {
        window.said = [];
        new MutationObserver(() => window.said.push(say.textContent)).observe(say, { childList: true, subtree: true });
    }""")
    with page.expect_response(lambda answer: answer.request == held[0].request):
        held[0].fulfill(json={"problem": "There is no hearing back."})
    before = float(page.locator(".rp-say").inner_text().split()[1])
    wait_for_recording(page, int(10 * before) + 3)
    expect(page.locator(RECORDING_MARK)).to_have_count(1)
    assert [said for said in page.evaluate("window.said") if not said.startswith("Recording ")] == []
    page.unroute_all()
    stop(page)


def test_removing_a_clip_or_leaving_the_page_deletes_uploads(page: Page) -> None:
    upload(page, CLIP, CLIP)
    expect(page.locator(".rp-clip-line")).to_have_count(2)
    first, second = (Path(clip["path"]) for clip in value(page, '"chosen": 1')["clips"])
    assert first != second
    page.get_by_role("button", name="Remove flite_slt.flac").first.click()
    expect(page.locator(".rp-clip-line")).to_have_count(1)
    wait_until_deleted(page, first)
    assert second.exists()
    page.get_by_role("button", name="Empty").click()
    expect(page.locator(".rp-clips")).to_be_hidden()
    wait_until_deleted(page, second)
    upload(page, CLIP)
    left = Path(value(page, '"chosen": 0')["clips"][0]["path"])
    assert left.exists()
    page.reload()
    wait_until_deleted(page, left)
