"""One server with the bundled model for all tests of the API, and its clients."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import av
import httpx
import numpy as np
import pytest

from api.app import create_api
from engine import Engine
from engine.request import turns
from storage import Storage
from storage.api_keys import NewKey
from storage.voices.sample_voices import install_samples
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from tests.web.conftest import serving
from web.http.hosts import is_local

TEXT = "Come in."  # about half a second
LONG = "The train was late, so we walked along the river. " * 190  # ten minutes
MOST_OF_LONG = 5_000  # frames; the whole text has more than ten thousand
FRAMES = 8  # of each sentence with `short_turns`


@dataclass(frozen=True)
class Server:
    """A server. url: its root, without a final slash. app: its services."""

    url: str
    app: AppContext
    engine: Engine

    @property
    def storage(self) -> Storage:
        return self.app.storage

    @contextmanager
    def key(self, name: str = "Test", owner: str = "user:ann", **more: Any) -> Iterator[str]:
        """Create a key for the block, during which all calls need one."""
        _, key = self.storage.keys.create(NewKey(name, owner, **more))
        try:
            yield key
        finally:
            self.storage.keys.revoke(name)

    def speaking(self) -> bool:
        """Return whether any speech has a slot."""
        return self.engine.status().speaking > 0

    @property
    def sentence(self) -> float:
        """Return the seconds of a sentence with `short_turns`."""
        return FRAMES / self.engine.info.frame_rate

    def busy(self) -> int:
        """Return the number of open speeches: running, queued, or between two segments."""
        return len(self.engine._pipeline.loop.scheduler.open_tickets())


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="session")
def server(bundled_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Storage.open(tmp_path_factory.mktemp("api") / "voices.db") as storage, serving() as start:
        install_samples(storage.voices)
        app = AppContext.create(ModelManager(bundled_engine), storage)
        parts = urlsplit(start(bundled_engine, storage, "machine", api=create_api(app, is_local)))
        yield Server(f"{parts.scheme}://{parts.netloc}", app, bundled_engine)


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[httpx.Client]:
    """A local client without a key."""
    with httpx.Client(base_url=server.url, timeout=120) as opened:
        yield opened


@pytest.fixture(scope="session")
def speak(client: httpx.Client) -> Callable[..., httpx.Response]:
    """A function that requests a speech, with defaults for all fields."""

    def post(headers: dict[str, str] | None = None, **asked: Any) -> httpx.Response:
        body = {"model": "tts-1", "input": TEXT, "voice": "Clara", "seed": 7, **asked}
        return client.post("/v1/audio/speech", json=body, headers=headers)

    return post


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each sentence after a few frames, without its words; for tests of what happens around the speech."""
    end_turns_after(FRAMES, monkeypatch)


def end_turns_after(frames: int, patch: pytest.MonkeyPatch) -> None:
    """End each sentence after so many frames, and do not try it again."""
    patch.setattr(turns, "frame_budget", lambda _text, _rate: frames)
    patch.setattr(turns, "ATTEMPTS", 1)


def metric(what: str, client: httpx.Client, front_end: str = "") -> float:
    """Return a count of the metrics: "cancelled" or "failed" speeches, or "frames"; by default of all front ends."""
    metrics, name = client.get("/metrics").text, "frames" if what == "frames" else f"speeches_{what}"
    counts = (line.split() for line in metrics.splitlines() if line.startswith(f"reprise_{name}_total{{"))
    return sum(float(count) for labels, count in counts if front_end in labels)


def decode_audio(data: bytes, format: str) -> tuple[np.ndarray, int]:
    """Decode audio; returns samples, on the format's scale, and the sampling rate."""
    if format == "pcm":
        return np.frombuffer(data, "<i2"), 24_000
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.audio[0]
        return np.concatenate([frame.to_ndarray()[0] for frame in container.decode(stream)]), stream.sample_rate


def same_sound(one: bytes, other: bytes, format: str = "pcm") -> bool:
    """Return whether two speeches are equal except for rounding, which depends on concurrent work.

    In a lossy format one rounding may change a whole block, but the difference stays far below the speech.
    """
    (first, rate), (second, _) = decode_audio(one, format), decode_audio(other, format)
    if len(first) != len(second) or rate <= 0:
        return False
    off = first.astype(float) - second
    if format in ("pcm", "wav", "flac"):
        return bool(np.abs(off).max() <= 4)
    return bool(np.square(off).mean() <= 0.01 * np.square(first.astype(float)).mean())
