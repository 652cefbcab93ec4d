"""The app as a Space starts it: with the package `spaces`, a GPU server, and a persistent folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
import pytest

from engine.errors import EngineBusy, EngineFailed
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, SpokenSegment
from engine.text import Segment
from studio.engines import zero_gpu
from studio.engines.arrived_audio import SECONDS_PER_CHARACTER
from tests.api.conftest import decode_audio
from tests.paths import ROOT, share_native_code
from tests.support.ports import free_port
from tests.support.waiting import until

FRAMES = 8
pytestmark = pytest.mark.slow


class GpuServer(ThreadingHTTPServer):
    """A fake of the device API of `spaces`. calls: received requests. refuses: whether visitors have no quota left."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.refuses = False
        super().__init__(("127.0.0.1", 0), _Handler)

    def requests(self, path: str) -> list[dict[str, str]]:
        return [query for requested, query in self.calls if requested == path]


class _Handler(BaseHTTPRequestHandler):
    server: GpuServer

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        self.server.calls.append((url.path, {name: values[0] for name, values in parse_qs(url.query).items()}))
        answer: object = {}
        status = 200
        if url.path == "/schedule" and self.server.refuses:
            status, answer = 429, {"left": 0, "wait": 3600}
        elif url.path == "/schedule":
            answer = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "GPU-0", "allowToken": "token"}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gpu_server() -> Iterator[GpuServer]:
    server = GpuServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def packages_beside_gradio(folder: Path) -> Path:
    """Simulate the older version of `mcp` that a Space installs with `gradio[oauth,mcp]`."""
    for path, content in (("mcp/__init__.py", ""), ("mcp-1.27.0.dist-info/METADATA", "Name: mcp\nVersion: 1.27.0\n")):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(content)
    return folder


def test_space_speaks_and_reports_a_missing_quota(gpu_server: GpuServer, tmp_path: Path) -> None:
    pytest.importorskip("spaces", reason="the package of Hugging Face Spaces is not installed (pip install spaces)")
    space = {
        "SPACE_ID": "ada/reprise",
        "SPACE_HOST": "ada-reprise.hf.space",
        "SPACES_ZERO_GPU": "true",
        "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{gpu_server.server_port}",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(packages_beside_gradio(tmp_path / "packages")),
    }
    share_native_code(tmp_path / "cache")
    kept = tmp_path / "kept"
    arguments = ["--port", str(free_port()), "--device", "cpu", "--no-open"]
    arguments += ["--snapshots", str(kept), "--database", str(tmp_path / "local" / "voices.db")]
    app = subprocess.Popen(
        [sys.executable, "-m", "tests.space_process", *arguments],
        cwd=ROOT,
        env={**os.environ, **space},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert app.stdout is not None
        url = next(filter(None, (re.search(r"http://[^\s?]+", line) for line in app.stdout))).group().rstrip("/")
        reader = threading.Thread(target=app.stdout.read, daemon=True)  # discards the output of `spaces`
        reader.start()
        assert gpu_server.requests("/startup-report")
        body = {"input": "The rain has stopped.", "voice": "Clara", "response_format": "wav", "max_new_tokens": FRAMES}
        spoken = httpx.post(f"{url}/v1/audio/speech", json=body, timeout=240)
        assert (spoken.status_code, spoken.content[:4]) == (200, b"RIFF"), spoken.text
        samples, rate = decode_audio(spoken.content, "wav")
        assert len(samples) / rate > 0.3
        (schedule,) = gpu_server.requests("/schedule")
        assert 10 <= int(schedule["durationSeconds"]) <= 13
        assert len(gpu_server.requests("/allow")) == 1
        until(lambda: len(gpu_server.requests("/release")) == 1)  # after the response
        gpu_server.refuses = True
        refused = httpx.post(f"{url}/v1/audio/speech", json=body, timeout=60)
        assert refused.status_code in (429, 503)
        assert "This Space lends no GPU now" in refused.text
    finally:
        app.terminate()
        app.wait(60)
        reader.join()
        assert app.stdout is not None
        app.stdout.close()
    assert len(list(kept.glob("library-*.sqlite"))) == 1


def test_html_refusal_is_reported_as_text() -> None:
    class Html(str):
        def __str__(self) -> str:
            return "No GPU was available after 60s."

    def refuse() -> None:
        error = RuntimeError()
        error.message = Html("No GPU <a href='join'>now</a>")  # type: ignore[attr-defined]
        raise error

    with pytest.raises(EngineBusy, match=r"^This Space lends no GPU now: No GPU was available after 60s\.$"):
        zero_gpu._translated(refuse)
    with pytest.raises(EngineFailed, match="by zero"):
        zero_gpu._translated(lambda: 1 // 0)


def test_long_texts_are_split_into_calls_of_bounded_length() -> None:
    segments = [Segment("word " * 20)] * 50
    ends = zero_gpu.parts(segments)
    assert ends[-1] == 50
    assert len(ends) > 3
    for begin, end in zip([0, *ends], ends, strict=False):
        characters = sum(len(segment.text) for segment in segments[begin:end])
        assert 0 < characters * SECONDS_PER_CHARACTER <= zero_gpu.CALL_SECONDS - zero_gpu.START_SECONDS
    assert zero_gpu.parts([Segment("word " * 2000)]) == [1]


@pytest.mark.parametrize("stops", [False, True])
def test_closed_speech_keeps_its_result(stops: bool) -> None:
    """The result is read after `closing`; a speech stopped in its second call is cancelled."""
    segments = tuple([Segment("word " * 200)] * 2)

    def work(call: zero_gpu.Call) -> Iterator[Any]:
        at = len(call.spoken)
        yield AudioChunk(np.zeros(8, np.float32), 8 * at, 1, 0.0, at, 2, "word")
        count = len(call.segments)
        done = [SegmentResult("word", "end", 1, 1)] * count
        yield SpokenSegment(done[-1], np.zeros((1, 1), np.int64))
        yield SpeechResult("end", count, 0.1, 0.1, 0.1, 7, tuple(done))

    call = zero_gpu.Call(segments, (), SpeakOptions(seed=7))
    with closing(zero_gpu.ZeroGpuSpeech(work, call, 80)) as speech:
        heard = 0
        for _ in speech:
            heard += 1
            if stops and heard == 2:
                speech.cancel()
    assert heard == 2
    assert speech.result is not None
    assert (speech.result.stop_reason, speech.result.frames) == ("cancelled" if stops else "end", 2)
    assert speech.result.seconds == (0.2 if stops else 0.1)
    assert not stops or speech.result.elapsed >= (speech.result.first_audio or 0) > 0


def test_closing_a_speech_releases_the_gpu() -> None:
    released = threading.Event()

    def work(_call: zero_gpu.Call) -> Iterator[Any]:
        try:
            for at in range(2):
                yield AudioChunk(np.zeros(8, np.float32), 8 * at, 1, 0.0, 0, 1, "word")
        finally:
            released.set()

    speech = zero_gpu.ZeroGpuSpeech(work, zero_gpu.Call((Segment("word"),), (), SpeakOptions(seed=7)), 80)
    next(speech)
    speech.close()
    assert released.is_set()
    assert speech.result is not None
    assert (speech.result.stop_reason, speech.result.frames) == ("cancelled", 1)


def test_pause_between_two_calls_is_passed_on_once() -> None:
    """Each call begins with the pause that the call before it may not have sent."""
    segments = tuple([Segment("word " * 200, silence_after=0.1)] * 2)

    def work(call: zero_gpu.Call) -> Iterator[Any]:
        at = len(call.spoken)
        if at:
            yield AudioChunk(np.zeros(8, np.float32), 8, 0, 0.0, 0, 2, "word")
        yield AudioChunk(np.zeros(8, np.float32), 16 * at, 1, 0.0, at, 2, "word")
        yield SpokenSegment(SegmentResult("word", "end", 1, 1), np.zeros((1, 1), np.int64))
        yield AudioChunk(np.zeros(8, np.float32), 16 * at + 8, 0, 0.0, at, 2, "word")

    speech = zero_gpu.ZeroGpuSpeech(work, zero_gpu.Call(segments, (), SpeakOptions(seed=7)), 80)
    assert [(chunk.start, chunk.frames) for chunk in speech] == [(0, 1), (8, 0), (16, 1), (24, 0)]
