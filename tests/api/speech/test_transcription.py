"""Transcription by the page's recogniser."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import openai
import pytest

from engine.audio.transcription import HeardSegment, HeardWord, TranscribedClip
from engine.errors import UnusableReference
from storage.server_settings import ServerSettings
from studio import recognition
from tests.api.conftest import Server
from tests.paths import CLIP

WORDS = "The rain --> has stopped."
URL = "/v1/audio/transcriptions"


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the recogniser hear `WORDS`; return the languages that it was given, or else the prompts."""
    given: list[str] = []

    def transcript_of(sound: bytes, _model: str, language: str, *, prompt: str, word_times: bool) -> TranscribedClip:
        assert sound == CLIP.read_bytes()
        given.append(language or prompt)
        words = (HeardWord("The", 0.1, 0.3), HeardWord("rain", 0.3, 0.6)) if word_times else ()
        segments = (
            HeardSegment(" The rain --> has", 0.1, 1.0, words, 0, (50363, 383), 0.0, -0.25, 0.9, 0.01),
            HeardSegment(" stopped.", 1.0, 2.5, (), 100, (50464,), 0.2, -0.5, 0.8, 0.02),
        )
        return TranscribedClip(language or "en", 2.5, segments)

    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcript_of", transcript_of)
    return given


@pytest.fixture
def create(server: Server) -> Callable[..., Any]:
    """OpenAI's client for Python."""
    return partial(
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0).audio.transcriptions.create, file=CLIP
    )


def test_openai_client_transcribes(create: Callable[..., Any], languages: list[str]) -> None:
    heard = create(model="whisper-1")
    assert (heard.text, heard.languages[0].code, heard.usage.seconds) == (WORDS, "en", 2.5)
    text = create(model="gpt-4o-mini-transcribe", language="de-DE", response_format="text", temperature=0)
    assert text == WORDS
    create(model="whisper-1", prompt="Reprise, Qwen3-TTS")
    assert languages == ["", "de", "Reprise, Qwen3-TTS"]


def test_openai_client_reads_times(create: Callable[..., Any], languages: list[str]) -> None:
    heard = create(model="whisper-1", response_format="verbose_json", language="sv")
    assert (heard.task, heard.language, heard.duration, heard.text) == ("transcribe", "swedish", 2.5, WORDS)
    assert "".join(segment.text for segment in heard.segments).strip() == WORDS
    last = heard.segments[1].model_dump()
    assert last == {
        "id": 1, "seek": 100, "start": 1.0, "end": 2.5, "text": " stopped.", "tokens": [50464], "temperature": 0.2,
        "avg_logprob": -0.5, "compression_ratio": 0.8, "no_speech_prob": 0.02,
    }  # fmt: skip
    assert heard.words is None
    words = create(model="whisper-1", response_format="verbose_json", timestamp_granularities=["word"])
    assert [word.model_dump() for word in words.words] == [
        {"word": "The", "start": 0.1, "end": 0.3},
        {"word": "rain", "start": 0.3, "end": 0.6},
    ]
    assert words.segments is None
    both = create(model="whisper-1", response_format="verbose_json", timestamp_granularities=["segment", "word"])
    assert (len(both.segments), len(both.words)) == (2, 2)


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("sv", "swedish"),
        ("pt-BR", "portuguese"),
        ("lo", "lao"),
        ("tl", "tagalog"),
        ("jw", "javanese"),
        ("haw", "hawaiian"),
    ],
)
def test_languages_are_named_as_they_may_be_given(
    create: Callable[..., Any], languages: list[str], tag: str, name: str
) -> None:
    for given in (tag, name, name.capitalize()):
        heard = create(model="whisper-1", response_format="verbose_json", language=given)
        assert heard.language == name
    assert set(languages) == {tag.partition("-")[0]}


@pytest.mark.usefixtures("languages")
def test_openai_client_gets_subtitles(create: Callable[..., Any]) -> None:
    first, second = "The rain → has", "stopped."
    assert create(model="whisper-1", response_format="srt") == (
        f"1\n00:00:00,100 --> 00:00:01,000\n{first}\n\n2\n00:00:01,000 --> 00:00:02,500\n{second}\n\n"
    )
    assert create(model="whisper-1", response_format="vtt") == (
        f"WEBVTT\n\n00:00:00.100 --> 00:00:01.000\n{first}\n\n00:00:01.000 --> 00:00:02.500\n{second}\n\n"
    )


@pytest.mark.usefixtures("languages")
def test_openai_client_streams(create: Callable[..., Any]) -> None:
    events = list(create(model="gpt-4o-transcribe", stream=True))
    assert [event.type for event in events] == ["transcript.text.delta"] * 2 + ["transcript.text.done"]
    assert "".join(event.delta for event in events[:2]) == events[2].text == WORDS


@pytest.mark.usefixtures("languages")
def test_whisper_does_not_stream_as_at_openai(client: httpx.Client) -> None:
    whole = client.post(URL, data={"model": "whisper-1", "stream": "true"}, files={"file": CLIP.read_bytes()})
    assert whole.json()["text"] == WORDS


@pytest.mark.parametrize("name", ["timestamp_granularities", "timestamp_granularities[]"])
@pytest.mark.parametrize("model", ["Whisper-1", "Small"])
@pytest.mark.usefixtures("languages")
def test_choices_may_be_capitals_and_lists_have_no_brackets(client: httpx.Client, model: str, name: str) -> None:
    asked = {"model": model, "response_format": "Verbose_JSON", name: ["Word", ""]}
    heard = client.post(URL, data=asked, files={"file": CLIP.read_bytes()}).json()
    assert [word["word"] for word in heard["words"]] == ["The", "rain"]


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"model": "tts-1"}, 404, "“tts-1” does not transcribe here"),
        ({"language": "Martian"}, 400, "language: “Martian” is not known"),
        ({"response_format": "diarized_json"}, 400, "response_format: "),
        ({"response_format": "srt", "timestamp_granularities[]": "word"}, 400, "timestamp_granularities: "),
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

    def refuse(*_given: Any, **_named: Any) -> TranscribedClip:
        raise UnusableReference("reference.too_long", longest=90)

    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcript_of", refuse)
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
    assert client.post(URL, data={"model": "small"}, files={"file": CLIP.read_bytes()}).json()["text"] == WORDS
    assert outside


def test_server_without_the_recogniser_says_so(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "can_transcribe", lambda: False)
    refused = client.post(URL, files={"file": CLIP.read_bytes()})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert "requirements-extra.txt" in refused.json()["error"]["message"]
