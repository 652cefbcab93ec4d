"""OpenAI's own clients, for Python and for Node, and the requests that other programs are known to send."""

import asyncio
import json
from pathlib import Path

import httpx
import openai
import pytest

from tests.api.conftest import TEXT, Server, bearer, decoded, same_sound
from tests.paths import CLIP
from tests.support.looping import run

WORDS = "The train was late, so we walked along the river."


@pytest.fixture(scope="module")
def python(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="not-needed", max_retries=0)


def test_python_speaks(python: openai.OpenAI, tmp_path: Path) -> None:
    whole = python.audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input=TEXT, response_format="pcm")
    samples, rate = decoded(whole.content, "pcm")
    assert 0.5 < len(samples) / rate < 5
    with python.audio.speech.with_streaming_response.create(
        model="tts-1", voice="nova", input=TEXT, instructions="Speak cheerfully.", speed=1.2
    ) as response:
        response.stream_to_file(tmp_path / "speech.mp3")
    samples, rate = decoded((tmp_path / "speech.mp3").read_bytes(), "mp3")
    assert len(samples) / rate > 0.5


def test_python_reads_events(python: openai.OpenAI) -> None:
    with python.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input=TEXT, stream_format="sse", response_format="opus"
    ) as response:
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    assert [event["type"] for event in events[-2:]] == ["speech.audio.delta", "speech.audio.done"]
    assert events[-1]["usage"]["total_tokens"] > len(TEXT)


def test_python_speaks_asynchronously(server: Server) -> None:
    async def speak() -> list[bytes]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:

            async def one() -> bytes:
                async with client.audio.speech.with_streaming_response.create(
                    model="tts-1", voice="echo", input=TEXT, response_format="pcm", extra_body={"seed": 5}
                ) as response:
                    return b"".join([part async for part in response.iter_bytes()])

            return await asyncio.gather(one(), one())

    assert same_sound(*run(speak))


def test_python_keeps_voices(python: openai.OpenAI, server: Server) -> None:
    voice = python.audio.voices.create(
        name="Anna", audio_sample=CLIP, consent="Anna Gray", extra_body={"ref_text": WORDS}
    )
    try:
        assert (voice.name, voice.object, voice.type) == ("Anna", "audio.voice", "audio_sample")
        python.audio.speech.create(model="tts-1", voice={"id": voice.id}, input="Hello.")
        with pytest.raises(openai.ConflictError, match="already a voice called “Anna”"):
            python.audio.voices.create(
                name="Anna", audio_sample=CLIP, consent="Anna Gray", extra_body={"ref_text": WORDS}
            )
        gone = python.audio.voices.delete(voice.id)
        assert (gone.id, gone.deleted, gone.object) == (voice.id, True, "audio.voice.deleted")
    finally:
        server.storage.voices.delete_all("local")


def test_python_keeps_recorded_consents(python: openai.OpenAI, server: Server) -> None:
    consents = python.audio.voice_consents
    first, second, third = (
        consents.create(name=name, language="en-US", recording=CLIP) for name in ("Anna Gray", "Ben Gray", "Cleo Gray")
    )
    try:
        assert (first.name, first.language, first.object) == ("Anna Gray", "en-US", "audio.voice_consent")
        assert consents.retrieve(first.id) == first
        assert [consent.id for consent in consents.list(limit=2)] == [third.id, second.id, first.id]
        assert server.storage.consents.recording(first.id) == CLIP.read_bytes()
        voice = python.audio.voices.create(
            name="Anna", audio_sample=CLIP, consent=first.id, extra_body={"ref_text": WORDS}
        )
        assert consents.update(first.id, name="Anna Grey").name == "Anna Grey"
        gone = consents.delete(first.id)
        assert (gone.id, gone.deleted, gone.object) == (first.id, True, "audio.voice_consent")
        agreed = server.storage.voices.get(voice.id).consent
        assert agreed
        assert (agreed.who, "in a recording" in agreed.sentence) == ("Anna Gray", True)
        assert int(agreed.when.timestamp()) == first.created_at
        with pytest.raises(openai.NotFoundError, match="no such consent"):
            consents.retrieve(first.id)
        with pytest.raises(openai.NotFoundError, match="no such consent"):
            python.audio.voices.create(name="Ann", audio_sample=CLIP, consent=first.id, extra_body={"ref_text": WORDS})
        with pytest.raises(openai.BadRequestError, match="not audio that can be read"):
            consents.create(name="Anna", language="en", recording=b"no audio")
        with server.key() as key, pytest.raises(openai.NotFoundError):
            python.with_options(api_key=key).audio.voice_consents.retrieve(second.id)
    finally:
        server.storage.forget("local")


def test_python_lists_models_and_reads_errors(python: openai.OpenAI, server: Server) -> None:
    assert next(model.id for model in python.models.list()) == "bundled"
    assert python.models.retrieve("tts-1").owned_by == "reprise"
    with pytest.raises(openai.NotFoundError, match="no voice called “Nobody”"):
        python.audio.speech.create(model="tts-1", voice="Nobody", input=TEXT)
    with pytest.raises(openai.BadRequestError, match="speed"):
        python.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, speed=9)
    with server.key() as key:
        with pytest.raises(openai.AuthenticationError, match="not valid"):
            python.models.list()
        assert python.with_options(api_key=key).models.list().data


def test_open_webui(client: httpx.Client, server: Server) -> None:
    """It asks for models and voices without its key, speaks as JSON, and keeps the whole response as an mp3."""
    with server.key() as key:
        voices = {voice["id"]: voice["name"] for voice in client.get("/v1/audio/voices").json()["voices"]}
        models = [model["id"] for model in client.get("/v1/audio/models").json()["models"]]
        assert voices["Clara"] == "Clara"
        assert models == ["tts-1", "tts-1-hd", "gpt-4o-mini-tts"]  # and not what the server has loaded
        spoken = client.post(
            "/v1/audio/speech",
            json={"input": TEXT, "voice": "Clara", "model": models[0]},
            headers={"Content-Type": "application/json", **bearer(key), "X-OpenWebUI-User-Name": "Ann"},
        )
    assert len(decoded(spoken.content, "mp3")[0]) > 0


def test_sillytavern(client: httpx.Client) -> None:
    """Its server sends the fields of its form, with the key that the user gave or an empty one."""
    spoken = client.post(
        "/v1/audio/speech",
        json={"input": TEXT, "response_format": "mp3", "voice": "shimmer", "speed": 1, "model": "tts-1"},
        headers={"Authorization": "Bearer"},
    )
    assert len(decoded(spoken.content, "mp3")[0]) > 0
