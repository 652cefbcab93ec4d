"""Time from the click to the first sample in a browser: Reprise's player against Gradio's streaming.

    python -m benchmarks.speed.page_latency [--runs 5]

The page has two buttons with the same generator, which yields recorded speech in chunks at the rate of an engine with a
real-time factor of 0.5. One button sends the chunks to Reprise's player (events into an audio worklet), the other to
`gr.Audio(streaming=True, autoplay=True)` (HLS through ffmpeg). Headless Chromium clicks each in turn, in a new page,
and reads from the audio clock when the first sample was played and how often playback paused afterwards. Requires
Chromium, and ffmpeg for Gradio's streaming.
"""

import base64
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gradio as gr
import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser

from benchmarks._report import Cell
from benchmarks.browser import chromium
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.speed._shared import Table, keep, parser, spread
from engine.audio import to_int16
from web.folders import private_folder
from web.http.gate import GatePolicy
from web.http.hosts import AllowedHosts
from web.http.routes import AllowedRoutes, RouteKind
from web.launch import launch
from web.ui.components import player

CHUNKS = (0.046, 0.2, 1.0)  # seconds of audio
PACE = 0.5  # seconds of simulated computation per second of audio
SECONDS = 4.0
WAYS = ("player", "streamed")
NAMES = {"player": "Reprise's player", "streamed": "gr.Audio(streaming=True)"}
_TIMEOUT = 60_000  # ms

# Finds the start of an audio element's playback by subtracting its clock from the time when it was first seen moving.
WATCH = """(seconds) => {
  const seen = { startedAt: null, stalls: 0, ended: false };
  let moved = { at: 0, now: performance.now() };
  window.streamed = seen;
  const look = () => {
    const audio = document.querySelector("#streamed audio");
    const now = performance.now();
    if (audio && audio.currentTime > 0) {
      seen.startedAt ??= now - audio.currentTime * 1000;
      if (audio.currentTime > moved.at) {
        const waited = now - moved.now - (audio.currentTime - moved.at) * 1000;
        if (moved.at > 0 && waited > 50) seen.stalls += 1;
        moved = { at: audio.currentTime, now };
      }
      seen.ended = audio.currentTime >= seconds - 0.15;
    }
    if (!seen.ended) setTimeout(look, 4);
  };
  look();
}"""


class Everything(AllowedRoutes):
    """All routes, because Gradio's streaming has some that Reprise's page does not use."""

    def kind(self, method: str, path: str) -> RouteKind | None:
        return super().kind(method, path) or "static"


ANYTHING = GatePolicy(AllowedHosts("127.0.0.1"), Everything())


def stream(samples: NDArray[np.int16], rate: int, seconds: float) -> Iterator[NDArray[np.int16]]:
    """Yield chunks of the given seconds, each after the computation time of the simulated engine."""
    size = round(seconds * rate)
    due = time.perf_counter()
    for start in range(0, len(samples), size):
        chunk = samples[start : start + size]
        due += PACE * len(chunk) / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        yield chunk


def page(samples: NDArray[np.int16], rate: int) -> gr.Blocks:
    """Create the page with both players."""

    def to_player(seconds: str, ticket: str) -> Iterator[dict[str, Any]]:
        own = {"ticket": ticket, "status": ""}
        yield {**own, "number": 0, "kind": "start", "rate": rate, "expected": SECONDS}
        start = number = 0
        for number, chunk in enumerate(stream(samples, rate, float(seconds)), 1):
            pcm = base64.b64encode(chunk.astype("<i2").tobytes()).decode()
            yield {**own, "number": number, "kind": "chunk", "start": start, "pcm": pcm}
            start += len(chunk)
        end = {"stop_reason": "end", "total": start, "wav": None, "problem": False}
        yield {**own, "number": number + 1, "kind": "end", **end}

    def to_audio(seconds: str) -> Iterator[tuple[int, NDArray[np.int16]]]:
        for chunk in stream(samples, rate, float(seconds)):
            yield rate, chunk

    demo: gr.Blocks
    with gr.Blocks(analytics_enabled=False) as demo:
        seconds = gr.Textbox(label="seconds")
        to_ours = gr.Button("player")
        to_theirs = gr.Button("streamed")
        stage = player(rate)
        audio = gr.Audio(streaming=True, autoplay=True, elem_id="streamed", sources=["microphone"])
        begin = "(seconds) => [seconds, window.reprisePlayer.begin()]"
        to_ours.click(to_player, [seconds, stage], stage, js=begin, preprocess=False)
        to_theirs.click(to_audio, seconds, audio)
    return demo


def listen(browser: Browser, url: str, way: str, seconds: float) -> dict[str, float]:
    """Run once in a new page. Return the seconds from the click to the first sample, and the number of pauses after."""
    context = browser.new_context()
    context.set_default_timeout(_TIMEOUT)
    try:
        visited = context.new_page()
        visited.goto(url)
        visited.get_by_label("seconds").fill(str(seconds))
        visited.wait_for_timeout(500)
        visited.evaluate("addEventListener('click', () => { window.clickedAt = performance.now(); }, true)")
        if way == "streamed":
            visited.evaluate(WATCH, SECONDS)
            visited.get_by_role("button", name="streamed").click()
            visited.wait_for_function("window.streamed.ended", polling=100)
            first, waits = visited.evaluate("[streamed.startedAt - clickedAt, streamed.stalls]")
        else:
            visited.get_by_role("button", name="player", exact=True).click()
            visited.wait_for_function(
                "(() => { const s = reprisePlayer.stats; return s.finished && s.position >= s.length - 1; })()",
                polling=100,
            )
            first, waits = visited.evaluate(
                "[reprisePlayer.stats.firstSoundAt - clickedAt, reprisePlayer.stats.underruns]"
            )
        return {"first": first / 1000, "waits": waits}
    finally:
        context.close()


def measure(runs: int) -> dict[str, Any]:
    """Measure all chunk lengths with both players in turn, so that load on the machine affects both."""
    clip = EvaluationSet.load().speakers[0].reference
    heard, rate = clip.read()
    wanted = round(SECONDS * rate)
    samples = to_int16(np.tile(heard, -(-wanted // len(heard)))[:wanted])
    found: dict[tuple[float, str], list[dict[str, float]]] = {(chunk, way): [] for chunk in CHUNKS for way in WAYS}
    with private_folder(), chromium() as browser:
        url = launch(page(samples, rate), policy=ANYTHING)
        for _ in range(runs):
            for chunk, way in found:
                found[chunk, way].append(listen(browser, url, way, chunk))
        version = browser.version
    rows = [figures(chunk, way, of) for (chunk, way), of in found.items()]
    return {"device": "cpu", "browser": f"Chromium {version}", "pace": PACE, "seconds": SECONDS, "rows": rows}


def figures(chunk: float, way: str, runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the medians and the worst values of the runs."""
    values = {name: spread(run[name] for run in runs) for name in ("first", "waits")}
    return {"chunk_s": chunk, "way": way, "runs": len(runs), **values}


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    by = {(row["chunk_s"], row["way"]): row for row in found["rows"]}
    rows: list[Sequence[Cell]] = []
    for chunk in dict.fromkeys(row["chunk_s"] for row in found["rows"]):
        ours, theirs = (by[chunk, way] for way in WAYS)
        rows += [_row(ours), _row(theirs)]
        ahead = (theirs["first"]["median"] - ours["first"]["median"]) * 1000
        rows.append([f"{chunk * 1000:g} ms, ahead by", f"{ahead:.0f} ms", None])
    title = f"Click to first sample in {found['browser']}, medians (worst)"
    note = (
        f"The stream has {found['seconds']:g} s of sound and takes {found['pace']:g} s a second: its first chunk is "
        "there after half its own length."
    )
    return Table(title, ["chunks, way", "click to first sample", "waits"], rows, [note])


def _row(of: Mapping[str, Any]) -> list[str]:
    first, waits = of["first"], of["waits"]
    return [
        f"{of['chunk_s'] * 1000:g} ms, {NAMES[of['way']]}",
        f"{first['median'] * 1000:.0f} ms ({first['worst'] * 1000:.0f})",
        f"{waits['median']:g} ({waits['worst']:g})",
    ]


def main() -> None:
    """Measure, print the table and save the figures."""
    made = parser(__doc__)
    made.add_argument("--runs", type=int, default=5)
    found = measure(made.parse_args().runs)
    table(found).show()
    keep("page_latency", found)


if __name__ == "__main__":
    main()
