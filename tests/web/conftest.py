"""Fixtures: a library in a real file, the fake engine, the page served by Gradio, and Chromium."""

import io
import wave
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from benchmarks import browser
from engine.audio import to_int16
from storage import Storage, VoiceLibrary, VoiceRecord
from storage.repositories.voices.shared_voices import SampleVoice
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, voice
from tests.support.ports import reused_port
from tests.web.stage import PLAIN_HTTP_HOST
from web.context import SIGNING, WebContext, create_links
from web.folders import private_folder
from web.identity import passwords
from web.identity.owners import OwnerMode, OwnerResolver
from web.identity.passwords import ScryptHasher
from web.launch import create_policy, launch
from web.page import create_app
from web.serve import read_deployment
from web.ui.i18n import Translations
from web.uploads.endpoint import UploadEndpoint
from web.uploads.store import UploadStore


@pytest.fixture(scope="module", autouse=True)
def no_transcription() -> Iterator[None]:
    """Serve the page as on a machine without faster-whisper, whether or not it is installed."""
    with mock.patch("studio.recognition.can_transcribe", return_value=False):
        yield


@pytest.fixture
def context(engine: FakeEngine, storage: Storage, tmp_path: Path) -> WebContext:
    """Context of handlers that are called without a page; uploads are stored in `uploads`."""
    (tmp_path / "uploads").mkdir()
    return make_context(engine, storage, tmp_path / "uploads")


@pytest.fixture
def samples(library: VoiceLibrary) -> list[VoiceRecord]:
    """Two shared voices."""
    library.share([SampleVoice(voice(name), f"I am {name}.") for name in ("Ada", "Ben")])
    return library.list()


def make_context(
    engine: Any, storage: Storage, folder: Path, way: OwnerMode = "local", root_path: str = ""
) -> WebContext:
    app = AppContext.create(ModelManager(engine), storage)
    return WebContext(
        app.engine, app.storage, app.takes, app.running, app.take_starter, app.script_runner, app.recognition,
        app.proof_runner, app.take_proofs,
        owners=OwnerResolver(way, storage.voices.secret(SIGNING)),
        links=create_links(app, root_path),
        translations=Translations.load(),
        folder=folder,
    )  # fmt: skip


def store_upload(folder: Path, name: str, data: bytes) -> Path:
    """Store a file among the uploads, as the upload route does; return its path."""
    return UploadStore(folder).keep(io.BytesIO(data), name, "an address")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """New passwords are hashed at the lowest cost."""
    quick = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1), ScryptHasher()))
    monkeypatch.setattr(passwords, "_HASHES", quick)


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """A function that serves a page over an engine and a storage and returns its URL."""
    with serving() as start:
        yield start


@contextmanager
def serving() -> Iterator[Callable[..., str]]:
    """Yield the same function as the fixture `serve`, for fixtures that live longer than a test."""
    with ExitStack() as stack:

        def start(
            engine: object,
            storage: Storage,
            way: OwnerMode = "local",
            allowed_hosts: Sequence[str] = (PLAIN_HTTP_HOST,),
            **options: Any,
        ) -> str:
            folder = Path(stack.enter_context(private_folder()))
            context = make_context(engine, storage, folder, way, options.get("root_path") or "")
            with skip_interim_servers():
                demo = create_app(context)
            place = read_deployment(
                options.get("server_name"), share=False, root_path=options.get("root_path"),
                accounts="accounts" in options, allowed_hosts=allowed_hosts,
            )  # fmt: skip
            place = replace(place, sign_in=way == "hub")
            policy = create_policy(place, way, storage.voices.secret(SIGNING), context.translations)
            routes = [*context.links.routes(), *UploadEndpoint(context.folder, context.translations).routes()]
            options = {"policy": policy, "translations": context.translations, "routes": routes, **options}
            options.setdefault("server_port", stack.enter_context(reused_port()))
            url = launch(demo, **options)
            stack.callback(demo.close, verbose=False)
            return policy.token.link(url) if policy.token else url

        yield start


def skip_interim_servers() -> AbstractContextManager[object]:
    """Skip the servers that Gradio creates whenever a page is started, ended or given a queue, at a tenth of a second
    each. `launch` creates the one that is used."""
    return mock.patch("gradio.blocks.App.create_app")


def microphone(path: Path) -> Path:
    """Write a WAV for Chromium's fake microphone: speech at 48,000 Hz, followed by silence."""
    samples, rate = soundfile.read(CLIP, dtype="float32")
    times = np.arange(int(len(samples) * 48_000 / rate)) * rate / 48_000
    heard = np.concatenate([np.interp(times, np.arange(len(samples)), samples), np.zeros(4_800)])
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48_000)
        file.writeframes(to_int16(heard.astype(np.float32)).astype("<i2").tobytes())
    return path


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium whose microphone plays a voice."""
    clip = microphone(tmp_path_factory.mktemp("microphone") / "clip.wav")
    arguments = [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={clip}",
        "--disable-background-networking",
        # A request to any other server fails and is an error on the page's console.
        f"--host-resolver-rules=MAP {PLAIN_HTTP_HOST} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ]
    try:
        with browser.chromium(*arguments) as opened:
            yield opened
    except browser.NoChromium as error:
        pytest.skip(str(error))


def read_wav(data: bytes) -> tuple[np.ndarray, int]:
    samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    return samples, rate
