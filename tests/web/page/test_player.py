"""The player alone on a page: its rendered samples and its controls."""

import base64
import json
import math
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from engine.audio import wav_bytes
from tests.web.conftest import read_wav
from tests.web.stage import TIMEOUT, open_page, serve_component
from tests.web.visiting import downloaded
from web.ui.components import player

RATE = 22_050
SECONDS = 3.0
expect.set_options(timeout=TIMEOUT)


def tone(seconds: float, pitch: float = 220.0) -> np.ndarray:
    """Return a steady tone as 16-bit samples, in which every gap or click shows."""
    phase = 2 * np.pi * pitch * np.arange(int(seconds * RATE)) / RATE
    samples: np.ndarray = np.rint(16_000 * np.sin(phase + 0.5)).astype(np.int16)
    return samples


TAKE = tone(SECONDS)


def messages(ticket: str, speed: float = 2) -> Iterator[dict[str, Any]]:
    """Yield a take as `web.tabs.speak.handlers` sends it. speed: as a multiple of that of playback."""
    frame = {"ticket": ticket, "status": "Speaking."}
    yield {**frame, "number": 0, "kind": "start", "rate": RATE, "expected": SECONDS}
    piece = RATE // 4
    for number, start in enumerate(range(0, len(TAKE), piece), 1):
        time.sleep(piece / RATE / speed)
        pcm = base64.b64encode(TAKE[start : start + piece].astype("<i2").tobytes()).decode()
        yield {**frame, "number": number, "kind": "chunk", "start": start, "pcm": pcm}
    end = {"stop_reason": "end", "total": len(TAKE), "wav": None, "problem": False, "take": "take-1"}
    yield {**frame, "number": 1_000, "kind": "end", **end}


def quick_messages(ticket: str) -> Iterator[dict[str, Any]]:
    """Yield the same take quickly, for tests of what follows it. Audio after it is taken back."""
    for message in messages(ticket, 20):
        if message["kind"] == "end":
            for number, samples in enumerate((TAKE[:RATE], TAKE[:0]), 900):
                pcm = base64.b64encode(samples.astype("<i2").tobytes()).decode()
                yield {**message, "number": number, "kind": "chunk", "start": len(TAKE), "pcm": pcm}
        yield message


def lossy_messages(ticket: str) -> Iterator[dict[str, Any]]:
    """Yield the same take with one message missing and a link to the whole file."""
    wav = base64.b64encode(wav_bytes(TAKE / np.float32(32768), RATE)).decode()
    for message in messages(ticket):
        if message["number"] != 4:
            more = {"wav": {"url": f"data:audio/wav;base64,{wav}", "name": "Anna – Hello.wav"}}
            yield {**message, **more} if message["kind"] == "end" else message


def failed_messages(ticket: str) -> Iterator[dict[str, Any]]:
    """Yield a take that fails after its start because the engine is full."""
    frame = {"ticket": ticket, "stop_reason": None, "wav": None, "take": None}
    yield {**frame, "number": 0, "kind": "start", "status": "Getting ready.", "rate": RATE, "expected": SECONDS}
    yield {**frame, "number": 1, "kind": "end", "status": "No place is free.", "total": 0, "problem": True}


def waiting_messages(ticket: str) -> Iterator[dict[str, Any]]:
    """Yield the messages of a take that waits for its turn."""
    yield {
        "ticket": ticket, "number": 0, "kind": "start", "status": "Getting ready.", "rate": RATE, "expected": SECONDS
    }  # fmt: skip
    yield {"ticket": ticket, "number": 1, "kind": "wait", "status": "You are next."}


SLOW = threading.Semaphore(0)  # lets `slow_messages` go on


def slow_messages(ticket: str) -> Iterator[dict[str, Any]]:
    """Yield the beginning of a long take, half a second of audio each time that `SLOW` is released, then its end."""
    frame = {"ticket": ticket, "status": "Speaking."}
    yield {**frame, "number": 0, "kind": "start", "rate": RATE, "expected": 600}
    piece = RATE // 2
    for number, start in enumerate((0, piece), 1):
        SLOW.acquire(timeout=60)
        pcm = base64.b64encode(TAKE[start : start + piece].astype("<i2").tobytes()).decode()
        yield {**frame, "number": number, "kind": "chunk", "start": start, "pcm": pcm}
    SLOW.acquire(timeout=60)
    end = {"stop_reason": "end", "total": 2 * piece, "wav": None, "problem": False, "take": "take-1"}
    yield {**frame, "number": 3, "kind": "end", **end}


def build(_folder: str) -> None:
    stage = player(RATE)
    # The event's input is the ticket created by the click, not the component's value.
    streams = {
        "Speak": messages,
        "Rush": quick_messages,
        "Lose": lossy_messages,
        "Fail": failed_messages,
        "Wait": waiting_messages,
        "Slow": slow_messages,
    }
    for name, speak in streams.items():
        gr.Button(name).click(
            speak, [stage], stage,
            js="() => [window.reprisePlayer.begin()]", preprocess=False, show_progress="hidden",
        )  # fmt: skip
    given_up = gr.Button("Give up").click(
        quick_messages, [stage], stage,
        js="() => { const ticket = window.reprisePlayer.begin(); window.reprisePlayer.stopAll(); return [ticket]; }",
        preprocess=False, show_progress="hidden",
    )  # fmt: skip
    stage.stop_speech(None, js="() => { window.stops = (window.stops ?? 0) + 1; }", trigger_mode="multiple")
    given_up.then(None, js="() => { window.stopsAtTheEnd = window.stops; }")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_component(build) as address:
        yield address


# ---- offline rendering

# The audio thread replies once it has read the messages sent before.
ECHO = """
const register = registerProcessor;
globalThis.registerProcessor = (name, Processor) => register(name, class extends Processor {
  receive(method, args) {
    if (method === "echo") this.port.postMessage({ echo: true });
    else super.receive(method, args);
  }
});
"""
RENDER = """
// Renders chunks [time, start, samples], then the end of the take, through an output; gives what sounded.
async function render(kind, rate, seconds, chunks) {
  const script = document.querySelector("script[src*='/reprise/static/']").src;
  const { BufferOutput, WorkletOutput } = await import(new URL("./player/playout/outputs.js", script));
  const context = new OfflineAudioContext(1, rate * seconds, rate);
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([ECHO], { type: "text/javascript" })));
  let at = {};
  let echoed = () => {};
  const report = (heard) => (heard.echo ? echoed() : (at = heard));
  class Offline extends BufferOutput { get running() { return true; } }
  const output = kind === "worklet" ? await WorkletOutput.open(context, context.destination, report)
    : new Offline(context, context.destination, report);
  clearInterval(output.timer);
  const read = async () => {
    if (kind !== "worklet") return;
    const echo = new Promise((done) => (echoed = done));
    output.call("echo");
    await echo;
  };
  const total = chunks.reduce((sum, [, , count]) => sum + count, 0);
  const sample = (i) => Math.round(16000 * Math.sin(2 * Math.PI * 220 * i / rate + 0.5));
  output.call("load", rate, { expected: total / rate });
  await read();
  const moments = new Map();
  const plan = (time, act) => {
    const frame = Math.ceil(time * rate / 128) * 128;
    moments.set(frame, [...(moments.get(frame) ?? []), act]);
  };
  for (const [time, start, count] of chunks) {
    const samples = Int16Array.from({ length: count }, (_, i) => sample(start + i));
    plan(time, (now) => output.call("write", start, samples, now));
  }
  plan(chunks.at(-1)[0] + 0.01, () => output.call("finish"));
  if (kind === "buffers") for (let time = 0.1; time < seconds; time += 0.1) plan(time, () => output.pump());
  for (const [frame, acts] of moments) {
    if (frame >= rate * seconds) continue;
    context.suspend(frame / rate).then(async () => {
      for (const act of acts) act(frame / rate);
      await read();
      context.resume();
    });
  }
  const rendered = (await context.startRendering()).getChannelData(0);
  for (let tries = 0; tries < 200 && !at.ended; tries++) await new Promise((done) => setTimeout(done, 10));
  const bytes = new Uint8Array(Float32Array.from(rendered).buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return { at, rendered: btoa(text) };
}
"""


@pytest.fixture(scope="module")
def loaded(chromium: Browser, url: str) -> Iterator[Page]:
    """A page on a secure origin with `render` as a global, until it is loaded again."""
    with open_page(chromium, url, device_scale_factor=2, reduced_motion="reduce", color_scheme="light") as page:
        expect(page.locator(".rp-play")).to_be_visible()
        page.evaluate(f"window.ECHO = {json.dumps(ECHO)};" + RENDER)
        yield page


def render_take(loaded: Page, kind: str, factor: float, chunk: float, seconds: float) -> tuple[np.ndarray, Any]:
    """Return the sound of a take made at real-time factor `factor` in `chunk`-second chunks, and the last report."""
    count, total = int(chunk * RATE), int(seconds * RATE)
    starts = range(0, total, count)
    chunks = [
        [factor * min(start + count, total) / RATE, start, min(count, total - start)] for start in starts
    ]  # a chunk arrives when it is made
    length = seconds * max(1.0, factor) + chunk + 2.0
    answer = loaded.evaluate("(args) => render(...args)", [kind, RATE, int(length), chunks])
    return np.frombuffer(base64.b64decode(answer["rendered"]), np.float32), answer["at"]


def gaps(sound: np.ndarray) -> list[tuple[int, int]]:
    """Return (start, length) of each silence over a millisecond between the first sound and the last."""
    loud = np.flatnonzero(np.abs(sound) > 1e-4)
    steps = np.diff(loud)
    return [(int(loud[i]), int(steps[i])) for i in np.flatnonzero(steps > RATE // 1_000)]


def click(sound: np.ndarray) -> float:
    """Return the largest step from one sample to the next."""
    return float(np.abs(np.diff(sound)).max())


OUTPUTS = ("worklet", "buffers")
TONE_STEP = float(np.abs(np.diff(tone(0.1) / 32768.0)).max())
FADE_STEP = 0.5 / (0.005 * RATE)  # of the loudest sample in 5 ms


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize(("factor", "chunk"), [(0.2, 0.2), (0.9, 0.0465), (0.9, 1.0)])
def test_playback_has_no_gaps_when_faster_than_real_time(loaded: Page, kind: str, factor: float, chunk: float) -> None:
    seconds = 3 * chunk if chunk >= 1 else 1.5
    sound, at = render_take(loaded, kind, factor, chunk, seconds)
    take = tone(seconds) / 32768.0
    first = int(np.flatnonzero(np.abs(sound) > 1e-5)[0])
    assert gaps(sound) == []
    assert at["underruns"] == 0
    wait = first / RATE - factor * chunk
    assert wait < 0.05, "it starts with the first chunk"
    best = min(range(first - 3, first + 4), key=lambda i: np.abs(sound[i : i + len(take)] - take).sum())
    off = np.abs(sound[best : best + len(take)] - take)
    assert off[RATE // 100 :].max() < 1e-4, "the sound equals the take to the last sample"
    assert at["ended"]


@pytest.mark.parametrize("kind", OUTPUTS)
def test_slow_engine_causes_gaps_but_no_clicks_or_lost_samples(loaded: Page, kind: str) -> None:
    seconds = 2.0
    sound, at = render_take(loaded, kind, 1.6, 0.2, seconds)
    found = gaps(sound)
    assert len(found) == at["underruns"] >= 1
    silent = sum(length for _, length in found)
    assert at["starved"] == pytest.approx(silent, abs=len(found) * RATE * 0.02), (
        "fades and blocks of a few milliseconds"
    )
    assert click(sound) < TONE_STEP + FADE_STEP + 0.005
    heard = np.count_nonzero(np.abs(sound) > 1e-4) / RATE
    assert heard == pytest.approx(seconds, abs=0.1)
    tail = tone(seconds)[-RATE // 10 :] / 32768.0
    end = int(np.flatnonzero(np.abs(sound) > 1e-4)[-1])
    around = [np.abs(sound[i : i + len(tail)] - tail).max() for i in range(end - len(tail) - 200, end - len(tail) + 20)]
    assert min(around) < 1e-4, "the end of the take is complete"


# ---- the page


def stats(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("window.reprisePlayer.stats")
    return found


def until(page: Page, condition: str) -> None:
    page.wait_for_function(
        f"(() => {{ const player = window.reprisePlayer, stats = player.stats; return {condition}; }})()",
        polling=100,  # ms: each frame would be evaluated otherwise
    )


LISTEN = """async () => {
  await new Promise((done) => {
    const look = () => (window.reprisePlayer.graph ? done() : setTimeout(look, 5));
    look();
  });
  const { context, volume } = window.reprisePlayer.graph;
  const source = `registerProcessor("ear", class extends AudioWorkletProcessor {
    process([[heard]]) { if (heard) this.port.postMessage(heard.slice()); return true; }
  });`;
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const ear = new AudioWorkletNode(context, "ear", { numberOfOutputs: 0 });
  window.heard = [];
  ear.port.onmessage = ({ data }) => window.heard.push(...data);
  volume.connect(ear);
}"""


HEARD = """() => {
  const bytes = new Uint8Array(Float32Array.from(window.heard).buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}"""


@pytest.fixture
def page(loaded: Page) -> Page:
    """The page with a player that has played nothing yet."""
    loaded.reload()
    expect(loaded.locator(".rp-play")).to_be_visible()
    note_events(loaded)
    return loaded


@pytest.fixture
def used_page(loaded: Page) -> Page:
    """The page as an earlier test has left it, which is silent now."""
    loaded.evaluate("window.reprisePlayer.pause()")
    until(loaded, "player.playing === null")
    note_events(loaded)
    return loaded


def note_events(page: Page) -> None:
    """Set `playerEvents` to an empty list, to which the following events are added."""
    page.evaluate("""() => {
        const noted = (window.playerEvents = []);
        for (const name of ["playing", "stopped", "spoken", "heard"]) {
            const note = ({ detail }) => noted.push([name, detail.id, detail.reason]);
            document.addEventListener(`reprise:${name}`, note);
        }
    }""")


def test_take_plays_sample_exactly_as_it_arrives(page: Page) -> None:
    page.evaluate("() => { window.reprisePlayer.play('silence', new Int16Array(2205)); }")
    page.evaluate(LISTEN)
    page.evaluate("""() => {
        const status = document.querySelector(".rp-status");
        const note = (changes) => window.announced.push(...changes.map(() => status.ariaLive));
        window.announced = [];
        new MutationObserver(note).observe(status, { attributeFilter: ["aria-live"] });
    }""")
    page.get_by_role("button", name="Speak").click()
    until(page, "stats.finished && stats.position >= stats.length - 1")
    announced = page.evaluate("window.announced")
    assert "off" in announced, "screen readers do not read the figures that change with each chunk"
    assert announced[0] == announced[-1] == "polite"
    loud = f"window.heard.filter((value) => Math.abs(value) > 1e-4).length >= {0.99 * len(TAKE)}"
    page.wait_for_function(loud, polling=100)  # the audio thread's messages
    sound = np.frombuffer(base64.b64decode(page.evaluate(HEARD)), np.float32)
    heard = stats(page)
    assert heard["output"] == "worklet"
    assert heard["played"] == len(TAKE)
    # Equal except for gaps shorter than a fade: on a busy machine, chunks arrive late.
    assert len(gaps(sound)) <= page.evaluate("window.reprisePlayer.stalls.times")
    assert click(sound) < TONE_STEP + FADE_STEP
    assert np.count_nonzero(np.abs(sound) > 1e-4) >= len(TAKE) * 0.99
    assert heard["firstSoundAt"] >= heard["firstChunkAt"] > heard["clickedAt"]
    waited = math.floor(heard["firstSoundAt"] - heard["clickedAt"] + 0.5)  # rounded as JavaScript does
    expect(page.locator(".rp-first")).to_have_text(f"first sound {waited} ms after the click")


def test_player_says_that_it_waits_for_more_audio(used_page: Page) -> None:
    page = used_page
    status = page.locator(".rp-status")
    page.get_by_role("button", name="Slow").click()
    SLOW.release()
    expect(status).to_have_text("Buffering: 0.0\u00a0s ready")  # the first half second has been played
    SLOW.release()
    expect(status).to_have_text("Buffering: 0.5\u00a0s ready")
    SLOW.release()
    expect(status).to_have_text("Speaking.")


def test_seek_pause_and_replay_without_fetching(page: Page) -> None:
    wave, button = page.locator(".rp-wave"), page.locator(".rp-play")
    expect(wave).to_have_attribute("aria-disabled", "true")
    expect(button).to_be_disabled()
    page.get_by_role("button", name="Rush").click()
    until(page, "stats.finished && stats.position > 0")
    wave.press("End")
    until(page, "stats.position >= stats.length - 1")
    expect(wave).to_have_attribute("aria-valuemax", "3.0")
    expect(button).to_have_attribute("aria-label", "Play")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "file=" in request.url else None)

    box = wave.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.click(box["x"] + box["width"] / 3, middle)
    expect(wave).to_have_attribute("aria-valuenow", "1.0")
    page.mouse.move(box["x"] + 5, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, middle, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.mouse.up()
    expect(wave).to_have_attribute("aria-valuenow", "1.5")
    expect(wave).to_be_focused()
    for key, time_ in (("Home", "0.0"), ("ArrowRight", "2.0"), ("ArrowLeft", "0.0"), ("End", "3.0")):
        wave.press(key)
        expect(wave).to_have_attribute("aria-valuenow", time_)
    expect(wave).to_have_attribute("aria-valuetext", "3.0\u00a0s of 3.0\u00a0s")

    wave.press(" ")
    until(page, "player.playing === 'take-1' && stats.position > 0.2 * 22050 && stats.position < 2.9 * 22050")
    wave.press(" ")
    until(page, "player.playing === null")
    paused = stats(page)["position"]
    page.wait_for_timeout(300)
    assert stats(page)["position"] == pytest.approx(paused, abs=RATE * 0.15)
    wave.press("ArrowRight")
    button.click()
    until(page, "stats.position >= stats.length - 1")
    events = page.evaluate("window.playerEvents")
    assert ["spoken", "take-1", None] in events
    assert [name for name, *_ in events].count("heard") == 1
    events = [event for event in events if event[0] in ("playing", "stopped")]
    assert [name for name, *_ in events] == ["playing", "stopped"] * 3
    assert events[-1] == ["stopped", "take-1", "ended"]
    assert events[-3] == ["stopped", "take-1", "paused"]
    assert asked == []


def test_lost_message_is_fetched_again_and_download_is_complete(used_page: Page) -> None:
    page = used_page
    page.get_by_role("button", name="Lose").click()
    until(page, "stats.refilled && stats.length === 3 * 22050 && stats.position >= stats.length - 1")
    assert page.evaluate("window.playerEvents.at(-1)") == ["stopped", "take-1", "ended"], "it went on where it was"
    name, wav = downloaded(page, page.get_by_role("button", name="Download WAV"))
    samples, rate = read_wav(wav)
    assert (name, rate) == ("Anna – Hello.wav", RATE)
    np.testing.assert_array_equal(samples, TAKE)

    page.evaluate("""() => {
        const { fetch } = window;
        window.fetch = (url, ...more) => {
            if (!url.startsWith?.("data:")) return fetch(url, ...more);
            window.fetch = fetch;
            return Promise.reject(new Error());
        };
    }""")
    page.get_by_role("button", name="Lose").click()
    expect(page.locator(".rp-status")).to_have_text("The connection to the server broke off. What had arrived is here.")


def test_failed_take_restores_the_previous_one(page: Page) -> None:
    status, wave, first = page.locator(".rp-status"), page.locator(".rp-wave"), page.locator(".rp-first")
    page.get_by_role("button", name="Fail").click()
    expect(status).to_have_text("No place is free.")
    expect(wave).to_have_attribute("aria-disabled", "true")
    expect(page.locator(".rp-play")).to_be_disabled()
    page.evaluate("window.reprisePlayer.clearMessage()")
    expect(status).to_have_text("Your take will play here as it is generated.")

    page.get_by_role("button", name="Rush").click()
    until(page, "stats.finished")
    page.evaluate("window.reprisePlayer.pause()")
    wave.press("End")
    wave.press("ArrowLeft")
    for button, act, says in (
        ("Fail", "", "No place is free."),
        ("", "window.reprisePlayer.begin(), window.reprisePlayer.stopAll()", "Stopped before it began."),
        ("", "window.reprisePlayer.begin(), window.reprisePlayer.refused()", "The request failed"),
        ("Wait", "window.reprisePlayer.refused()", "The request failed"),
        ("", "window.reprisePlayer.refuse('Write a sentence.')", "Write a sentence."),
    ):
        if button:
            page.get_by_role("button", name=button).click()
        if button == "Wait":
            expect(status).to_have_text("You are next.")
        if act:
            page.evaluate(act)
        expect(status).to_contain_text(says)
        expect(first).to_be_empty()
        expect(wave).to_have_attribute("aria-valuetext", "1.0\u00a0s of 3.0\u00a0s")
        assert page.evaluate("window.reprisePlayer.playing") is None
        page.evaluate("window.reprisePlayer.clearMessage()")
        expect(status).to_have_text("Speaking.")
        expect(first).to_contain_text("ms after the click")
    page.wait_for_function("window.stops === 2", polling=50)  # of the two takes whose event failed
    page.evaluate("window.stops = 0")
    page.get_by_role("button", name="Give up").click()
    page.wait_for_function("window.stopsAtTheEnd", polling=50)
    assert page.evaluate("window.stopsAtTheEnd") == 1, "the server is asked once to end a take that was given up"
    page.locator(".rp-play").click()
    until(page, "player.playing === 'take-1' && stats.position > 1.1 * 22050")
    page.evaluate("window.reprisePlayer.begin(), window.reprisePlayer.forget('take-1'), window.reprisePlayer.stopAll()")
    expect(page.locator(".rp-play")).to_be_disabled()
    assert stats(page)["on"] is None, "a take that was deleted meanwhile is not restored"


def test_takes_play_and_compare_at_the_same_position(used_page: Page) -> None:
    page = used_page
    page.evaluate("""() => {
        const tone = (seconds) => new Int16Array(22050 * seconds).fill(9000);
        window.list = [["a", tone(4)], ["b", async () => ({ wav: { rate: 11025, samples: tone(4) }, facts: {} })]];
        window.played = window.reprisePlayer.play(...window.list[0]);
    }""")
    until(page, "player.playing === 'a' && stats.position > 22050 * 0.5")
    share = "stats.position / stats.length"
    before = page.evaluate(f"(() => {{ const stats = window.reprisePlayer.stats; return {share}; }})()")
    assert page.evaluate("window.reprisePlayer.compare(...window.list)") == "b"
    until(page, f"player.playing === 'b' && {share} > {before}")
    after = page.evaluate(f"(() => {{ const stats = window.reprisePlayer.stats; return {share}; }})()")
    assert before < after < before + 0.5, "playback continues at the same position"
    assert page.evaluate("window.reprisePlayer.compare('a', 'b')") == "a"
    assert page.evaluate("window.reprisePlayer.toggle('a')") is True
    until(page, "player.playing === null")
    for unknown in ("'never heard of'", "'deleted meanwhile', async () => null"):
        assert page.evaluate(f"window.reprisePlayer.play({unknown})") is False
    expect(page.locator(".rp-status")).to_contain_text("cannot be played")
    page.evaluate("""async () => {
        const { fetch } = window;
        window.fetch = () => Promise.reject(new TypeError("Failed to fetch"));
        await window.reprisePlayer.play("on the server", "somewhere");
        window.fetch = fetch;
    }""")
    away = "This cannot be played: the server does not answer. Try again when it is back."
    expect(page.locator(".rp-status")).to_have_text(away)
    page.locator(".rp-play").click()
    expect(page.locator(".rp-status")).not_to_contain_text("cannot be played")
    page.evaluate("""() => {
        const source = () => new Promise((resolve) => (window.tellElsewhere = resolve));
        window.played = window.reprisePlayer.play("told elsewhere", source);
    }""")
    expect(page.locator(".rp-status")).to_have_text("Loading…")
    assert page.evaluate("window.tellElsewhere(), window.played") is False
    expect(page.locator(".rp-status")).not_to_have_text(re.compile("Loading…|cannot be played"))
    page.evaluate("() => { window.reprisePlayer.play('on a slow server', () => new Promise(() => {})); }")
    expect(page.locator(".rp-status")).to_have_text("Loading…")
    page.locator(".rp-stop-all").press("Enter")
    expect(page.locator(".rp-status")).not_to_have_text("Loading…")
    expect(page.locator(".rp-stop-all")).to_be_disabled()
    expect(page.locator(".rp-play")).to_be_focused()
    events = page.evaluate("window.playerEvents.map(([name, id, reason]) => [name, id, reason ?? null])")
    assert events[:3] == [["playing", "a", None], ["stopped", "a", "replaced"], ["playing", "b", None]]


def test_beginning_of_a_huge_text_is_shown_beside_its_take(used_page: Page) -> None:
    page = used_page
    play = "text => window.reprisePlayer.play(`${text.length}`, new Int16Array(22050).fill(9000), { text })"
    assert page.evaluate(play, "word " * 70_000)
    until(page, "stats.position > 22050 * 0.5")
    expect(page.locator(".rp-now-line")).to_contain_text("word word word")
    expect(page.locator(".rp-now-line span")).to_have_count(0)
    assert page.evaluate(play, "word " * 50)
    expect(page.locator(".rp-now-line [data-now]")).to_have_count(1)


def test_no_sound_begins_by_itself_while_the_microphone_is_open(page: Page) -> None:
    page.evaluate("""() => {
        const record = () => document.dispatchEvent(new CustomEvent("reprise:recording"));
        let arrive;
        const later = new Promise((resolve) => (arrive = resolve));
        window.played = window.reprisePlayer.play("late", later);
        record();
        arrive(new Int16Array(22050));
        document.addEventListener("reprise:begun", record, { once: true });
    }""")
    page.get_by_role("button", name="Rush").click()
    until(page, "stats.finished && stats.length === 3 * 22050")
    assert page.evaluate("window.played") is False
    assert page.evaluate("window.reprisePlayer.playing") is None
    page.locator(".rp-play").click()
    until(page, "player.playing === 'take-1' && stats.position > 0")
    names = page.evaluate("window.playerEvents.map(([name]) => name).filter((name) => name !== 'heard')")
    assert names == ["spoken", "playing"]


# Plays half a second of sound; returns the times that the waveform showed meanwhile.
SHOWN_TIMES = """async () => {
  const wave = document.querySelector(".rp-wave");
  const shown = [];
  const watcher = new MutationObserver(() => shown.push(Number(wave.getAttribute("aria-valuenow"))));
  watcher.observe(wave, { attributeFilter: ["aria-valuenow"] });
  await window.reprisePlayer.play("b", new Int16Array(11025).fill(9000));
  for (let i = 0; i < 1000 && window.reprisePlayer.playing; i++) await new Promise((done) => setTimeout(done, 20));
  return shown;
}"""


def test_waveform_on_light_dark_and_high_density_screens(used_page: Page) -> None:
    page = used_page
    colours = """() => {
        const canvas = document.querySelector(".rp-wave canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const found = new Set();
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.add([...data.slice(i, i + 3)].join());
        return [...found];
    }"""
    page.evaluate("""() => {
        const line = document.querySelector(".rp-now-line");
        const marked = (window.marked = []);
        const note = () => marked.push(line.querySelector("[data-now]")?.textContent);
        new MutationObserver(note).observe(line, { subtree: true, attributeFilter: ["data-now"] });
        const words = [[0, 3, 0, 0.2], [4, 7, 0.2, 0.6], [8, 13, 0.6, 2]];
        const facts = { text: "one two three", words };
        window.reprisePlayer.play("a", new Int16Array(22050 * 2).fill(9000), facts);
    }""")
    until(page, "stats.position > 22050 * 1.2")
    now = page.locator(".rp-wave").get_attribute("aria-valuenow")
    assert now is not None
    assert float(now) % 1 == 0, "with reduced motion, the cursor moves once a second"
    until(page, "stats.position >= stats.length - 1")
    assert "two" in page.evaluate("window.marked"), "but words are marked when they are heard"
    page.wait_for_function(f"({colours})().includes('15,118,110')", polling=50)
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"({colours})().includes('45,212,191')", polling=50)
    width = page.evaluate("document.querySelector('.rp-wave').clientWidth")
    assert page.evaluate("document.querySelector('.rp-wave canvas').width") == 2 * width

    page.emulate_media(reduced_motion="no-preference")  # every frame is drawn
    assert any(0 < time_ < 1 for time_ in page.evaluate(SHOWN_TIMES)), "the cursor moves with the sound"
    page.emulate_media(reduced_motion="reduce")
