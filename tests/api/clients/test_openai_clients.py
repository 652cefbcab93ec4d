"""OpenAI's Python client, and the requests of other known programs."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.api.conftest import TEXT, Server, bearer, decode_audio, same_sound
from tests.api.voices import delete_voices
from tests.paths import CLIP
from tests.support.looping import run

if TYPE_CHECKING:  # importing it takes a second, which each worker would spend
    import openai

WORDS = "The train was late, so we walked along the river."

pytestmark = pytest.mark.usefixtures("short_turns")


@pytest.fixture(scope="module")
def openai_client(server: Server) -> openai.OpenAI:
    import openai

    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="not-needed", max_retries=0)


def test_python_client_speaks(openai_client: openai.OpenAI, tmp_path: Path) -> None:
    whole = openai_client.audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input=TEXT, response_format="pcm")
    samples, rate = decode_audio(whole.content, "pcm")
    assert 0.3 < len(samples) / rate < 5
    with openai_client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="nova", input=TEXT, instructions="Speak cheerfully.", speed=1.2
    ) as response:
        response.stream_to_file(tmp_path / "speech.mp3")
    samples, rate = decode_audio((tmp_path / "speech.mp3").read_bytes(), "mp3")
    assert len(samples) / rate > 0.3


def test_python_client_reads_events(openai_client: openai.OpenAI) -> None:
    with openai_client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input=TEXT, stream_format="sse", response_format="opus"
    ) as response:
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    assert [event["type"] for event in events[-2:]] == ["speech.audio.delta", "speech.audio.done"]
    assert events[-1]["usage"]["total_tokens"] > len(TEXT)


def test_async_python_client_speaks(server: Server) -> None:
    import openai

    async def speak() -> tuple[bytes, bytes]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:

            async def one() -> bytes:
                async with client.audio.speech.with_streaming_response.create(
                    model="tts-1", voice="echo", input=TEXT, response_format="pcm", extra_body={"seed": 5}
                ) as response:
                    return b"".join([part async for part in response.iter_bytes()])

            return await asyncio.gather(one(), one())

    assert same_sound(*run(speak))


def test_python_client_manages_voices(openai_client: openai.OpenAI, server: Server) -> None:
    import openai

    voice = openai_client.audio.voices.create(
        name="Anna", audio_sample=CLIP, consent="Anna Gray", extra_body={"ref_text": WORDS}
    )
    try:
        assert (voice.name, voice.object, voice.type) == ("Anna", "audio.voice", "audio_sample")
        openai_client.audio.speech.create(model="tts-1", voice={"id": voice.id}, input="Hello.")
        with pytest.raises(openai.ConflictError, match="already a voice called “Anna”"):
            openai_client.audio.voices.create(
                name="Anna", audio_sample=CLIP, consent="Anna Gray", extra_body={"ref_text": WORDS}
            )
        gone = openai_client.audio.voices.delete(voice.id)
        assert (gone.id, gone.deleted, gone.object) == (voice.id, True, "audio.voice.deleted")
    finally:
        delete_voices(server.storage.voices, "local")


def test_python_client_manages_recorded_consents(openai_client: openai.OpenAI, server: Server) -> None:
    import openai

    consents = openai_client.audio.voice_consents
    first, second, third = (
        consents.create(name=name, language="en-US", recording=CLIP) for name in ("Anna Gray", "Ben Gray", "Cleo Gray")
    )
    try:
        assert (first.name, first.language, first.object) == ("Anna Gray", "en-US", "audio.voice_consent")
        assert consents.retrieve(first.id) == first
        assert [consent.id for consent in consents.list(limit=2)] == [third.id, second.id, first.id]
        assert server.storage.consents.recording(first.id) == CLIP.read_bytes()
        voice = openai_client.audio.voices.create(
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
            openai_client.audio.voices.create(
                name="Ann", audio_sample=CLIP, consent=first.id, extra_body={"ref_text": WORDS}
            )
        with pytest.raises(openai.BadRequestError, match="not audio that can be read"):
            consents.create(name="Anna", language="en", recording=b"no audio")
        with server.key() as key:
            others = openai_client.with_options(api_key=key).audio.voice_consents
            assert list(others.list()) == []
            for use in (others.retrieve, others.delete, partial(others.update, name="Mine")):
                with pytest.raises(openai.NotFoundError):
                    use(second.id)
        assert consents.retrieve(second.id) == second
    finally:
        server.storage.delete_owner("local")


def test_python_client_lists_models_and_reads_errors(openai_client: openai.OpenAI, server: Server) -> None:
    import openai

    assert next(model.id for model in openai_client.models.list()) == "bundled"
    assert openai_client.models.retrieve("tts-1").owned_by == "reprise"
    with pytest.raises(openai.NotFoundError, match="no voice called “Nobody”"):
        openai_client.audio.speech.create(model="tts-1", voice="Nobody", input=TEXT)
    with pytest.raises(openai.BadRequestError, match="speed"):
        openai_client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, speed=9)
    with server.key() as key:
        with pytest.raises(openai.AuthenticationError, match="not valid"):
            openai_client.models.list()
        assert openai_client.with_options(api_key=key).models.list().data


def test_open_webui_requests(client: httpx.Client, server: Server) -> None:
    """It lists models and voices without its key, sends JSON, and stores the whole response as MP3."""
    with server.key() as key:
        voices = {voice["id"]: voice["name"] for voice in client.get("/v1/audio/voices").json()["voices"]}
        models = [model["id"] for model in client.get("/v1/audio/models").json()["models"]]
        assert voices["Clara"] == "Clara"
        assert models == ["tts-1", "tts-1-hd", "gpt-4o-mini-tts"]  # without the name of the loaded model
        spoken = client.post(
            "/v1/audio/speech",
            json={"input": TEXT, "voice": "Clara", "model": models[0]},
            headers={"Content-Type": "application/json", **bearer(key), "X-OpenWebUI-User-Name": "Ann"},
        )
    assert len(decode_audio(spoken.content, "mp3")[0]) > 0


def test_sillytavern_requests(client: httpx.Client) -> None:
    """Its server sends the fields of its form, with the user's key or an empty one."""
    spoken = client.post(
        "/v1/audio/speech",
        json={"input": TEXT, "response_format": "mp3", "voice": "shimmer", "speed": 1, "model": "tts-1"},
        headers={"Authorization": "Bearer"},
    )
    assert len(decode_audio(spoken.content, "mp3")[0]) > 0
