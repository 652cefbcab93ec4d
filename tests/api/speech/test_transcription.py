"""Transcription by the page's recogniser."""

import asyncio

import httpx
import openai
import pytest

from engine.errors import UnusableReference
from storage.server_settings import ServerSettings
from studio import recognition
from tests.api.conftest import Server
from tests.paths import CLIP

WORDS = "The rain has stopped."
URL = "/v1/audio/transcriptions"


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the recogniser hear `WORDS`; return the languages that it was given."""
    given: list[str] = []

    def transcribe(sound: bytes, _model: str, language: str) -> str:
        assert sound == CLIP.read_bytes()
        given.append(language)
        return WORDS

    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcribe", transcribe)
    return given


def test_openai_client_transcribes(server: Server, languages: list[str]) -> None:
    create = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0).audio.transcriptions.create
    assert create(model="whisper-1", file=CLIP).text == WORDS
    text = create(model="gpt-4o-mini-transcribe", file=CLIP, language="de-DE", response_format="text", temperature=0)
    assert text == WORDS
    assert languages == ["", "de"]


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"model": "tts-1"}, 404, "“tts-1” does not transcribe here"),
        ({"response_format": "srt"}, 400, "response_format: "),
    ],
)
@pytest.mark.usefixtures("languages")
def test_other_models_and_formats_are_refused(
    client: httpx.Client, asked: dict[str, str], status: int, says: str
) -> None:
    refused = client.post(URL, data=asked, files={"file": CLIP.read_bytes()})
    assert (refused.status_code, says in refused.json()["error"]["message"]) == (status, True)


def test_long_file_is_refused_as_a_file(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with the advice on a clip of a voice."""

    def refuse(_sound: bytes, _model: str, _language: str) -> str:
        raise UnusableReference("reference.too_long", longest=90)

    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcribe", refuse)
    refused = client.post(URL, files={"file": CLIP.read_bytes()})
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        400,
        "file: it is longer than 90 seconds; send it in parts.",
    )


@pytest.mark.usefixtures("languages")
def test_choice_of_the_recogniser_is_not_read_in_the_event_loop(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, outside = ServerSettings.get, []

    def read_outside(self: ServerSettings, name: str) -> str | None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        outside.append(name)
        return read(self, name)

    monkeypatch.setattr(ServerSettings, "get", read_outside)
    assert client.post(URL, data={"model": "small"}, files={"file": CLIP.read_bytes()}).json() == {"text": WORDS}
    assert outside


def test_server_without_the_recogniser_says_so(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "can_transcribe", lambda: False)
    refused = client.post(URL, files={"file": CLIP.read_bytes()})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert "requirements-extra.txt" in refused.json()["error"]["message"]
