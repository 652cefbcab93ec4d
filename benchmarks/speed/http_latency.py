"""First byte of audio over HTTP against the first encoded bytes in process.

    python -m benchmarks.speed.http_latency [--runs 30]

Both speak the same sentence in the same voice with the same encoder, in turn, so that load on the machine affects both.
Each comes first in every other run, and no request begins before the frame in progress of a cancelled one has ended, so
that both meet an idle engine. The difference is the server's overhead. HTTP is measured by a client in its own process,
from the request on an open connection to the first byte of the response body, including the gate, keys and limits of
the real server.
"""

import subprocess
import sys
import time
from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr
import httpx

from api.app import create_api
from benchmarks.engines import loaded, wait_for_frame
from benchmarks.speed._shared import Table, engine_parser, keep, model_name, spread
from engine.audio.output.stream import StreamEncoder, StreamFormat
from storage import Storage
from storage.voices.sample_voices import install_samples
from studio.access import Access, Caller
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from studio.speech_service import RequestedOptions, SpeechService, VoiceChoice
from training.work import exit_with_message
from web.folders import private_folder
from web.http.gate import GatePolicy
from web.http.hosts import AllowedHosts, is_local
from web.http.routes import AllowedRoutes
from web.launch import launch

TEXT = "The rain has stopped, so we can go out for a walk along the river now."
VOICE = "Clara"
FORMATS: tuple[StreamFormat, ...] = ("mp3", "pcm")
RATES = {"mp3": None, "pcm": 24_000}
Timed = Callable[[int], float]  # from a seed to seconds
TARGET = 0.015  # greatest median overhead of the server, in seconds


def in_process(service: SpeechService, format: StreamFormat, seed: int) -> float:
    """Return the seconds to the first encoded bytes."""
    began = time.perf_counter()
    speech = service.speak(Caller(), TEXT, VoiceChoice(VOICE), RequestedOptions(seed=seed))
    encoder = StreamEncoder(format, speech.sample_rate, sample_rate=RATES[format])
    while not encoder.encode(next(speech).samples):
        pass
    took = time.perf_counter() - began
    speech.close()
    wait_for_frame()
    return took


class Client:
    """A client process that sends requests over one HTTP connection."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "benchmarks.speed.http_latency", "--ask", url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, format: StreamFormat, seed: int) -> float:
        """Return the seconds to the first byte of the response body."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(format, seed, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def ask(url: str) -> None:
    """Run the client process: read lines with a format and a seed, and print the seconds of each."""
    with httpx.Client(base_url=url, timeout=120) as client:
        for line in sys.stdin:
            format, seed = line.split()
            print(over_http(client, format, int(seed)), flush=True)


def over_http(client: httpx.Client, format: str, seed: int) -> float:
    """Return the seconds to the first byte of the response body."""
    asked = {"model": "tts-1", "input": TEXT, "voice": VOICE, "response_format": format, "seed": seed}
    began = time.perf_counter()
    with client.stream("POST", "/v1/audio/speech", json=asked) as response:
        parts = response.iter_raw()
        next(parts)
        took = time.perf_counter() - began
        for _ in parts:  # read to the end, so that the connection stays open
            pass
    return took


def measure(app: AppContext, runs: int) -> dict[str, Any]:
    """Measure seconds in process, over HTTP and added, by format."""
    service = SpeechService(app, Access(app.storage.keys))
    policy = GatePolicy(AllowedHosts("127.0.0.1"), AllowedRoutes(api=True))
    with private_folder(), gr.Blocks() as demo:
        pass
    url = launch(demo, policy=policy, api=create_api(app, is_local))
    found: dict[str, Any] = {}
    try:
        with closing(Client(url)) as client:
            for format in FORMATS:
                pairs = in_turns(partial(in_process, service, format), partial(client.seconds, format), runs)
                found[format] = figures(pairs)
    finally:
        demo.close(verbose=False)
    return found


def in_turns(inside: Timed, outside: Timed, runs: int) -> list[tuple[float, float]]:
    """Time both ways with each seed; each way comes first in every other run. Two more pairs at first warm up.

    Returns the seconds in process and over HTTP of each run.
    """
    pairs = []
    for seed in (0, 1, *range(runs)):
        if seed % 2:
            http = outside(seed)
            pairs.append((inside(seed), http))
        else:
            pairs.append((inside(seed), outside(seed)))
    return pairs[2:]


def figures(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return medians and worst values in process, over HTTP, and of what HTTP adds to the same request."""
    inside, outside = zip(*pairs, strict=True)
    added = [http - process for process, http in pairs]
    return {"process": spread(inside), "http": spread(outside), "added": spread(added)}


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    rows = [
        [
            format,
            *(1000 * found["formats"][format][way]["median"] for way in ("process", "http", "added")),
            1000 * found["formats"][format]["added"]["worst"],
        ]
        for format in FORMATS
    ]
    columns = ["format", "in process, ms", "over HTTP, ms", "added, ms", "added, worst, ms"]
    note = f"Medians of {found['runs']} runs in turns. Target: at most {1000 * TARGET:.0f} ms added at the median."
    return Table("First byte of audio over HTTP", columns, rows, [note])


def main(arguments: Sequence[str] | None = None) -> None:
    options = engine_parser(__doc__)
    options.add_argument("--runs", type=int, default=30)
    options.add_argument("--ask", help=SUPPRESS)
    chosen = options.parse_args(arguments)
    if chosen.ask:
        ask(chosen.ask)
        return
    with (
        loaded(chosen.model, chosen.device) as engine,
        TemporaryDirectory() as folder,
        Storage.open(Path(folder) / "voices.db") as storage,
    ):
        install_samples(storage.voices)
        formats = measure(AppContext.create(ModelManager(engine), storage), chosen.runs)
        found = {
            "model": model_name(chosen.model), "device": engine.info.device, "runs": chosen.runs, "text": TEXT,
            "formats": formats,
        }  # fmt: skip
    table(found).show()
    keep("http_latency", found)


if __name__ == "__main__":
    with exit_with_message():
        main()
