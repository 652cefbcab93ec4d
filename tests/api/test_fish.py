"""Fish Audio's operations, with the requests of its clients."""

import base64
from collections.abc import Iterator

import httpx
import msgpack
import pytest

from tests.api.conftest import TEXT, Server, decode_audio, same_sound
from tests.api.voices import delete_voices
from tests.paths import CLIP

WORDS = "The train was late, so we walked along the river."


pytestmark = pytest.mark.usefixtures("short_turns")


@pytest.fixture(autouse=True)
def empty_library(server: Server) -> Iterator[None]:
    yield
    delete_voices(server.storage.voices, "local")


def test_json_and_messagepack_requests_give_the_same_speech(client: httpx.Client, server: Server) -> None:
    asked = {
        "text": TEXT,
        "reference_id": "Clara",
        "format": "pcm",
        "seed": 7,
        "latency": "balanced",
        "normalize": True,
    }
    by_json = client.post("/v1/tts", json=asked, headers={"model": "s1"})
    by_msgpack = client.post("/v1/tts", content=msgpack.packb(asked), headers={"Content-Type": "application/msgpack"})
    assert by_json.status_code == by_msgpack.status_code == 200, by_msgpack.text
    assert by_json.headers["content-type"] == "audio/pcm;rate=44100;channels=1"
    assert same_sound(by_json.content, by_msgpack.content)
    assert by_json.headers["x-seed"] == "7"
    assert by_json.headers["x-usage-characters"] == str(len(TEXT))
    assert by_json.headers["x-accel-buffering"] == "no"
    nulls = {"references": None, "prosody": None, "sample_rate": None, "reference_id": ["Clara"]}
    within = {"prosody": {"speed": None, "volume": None}}
    assert same_sound(client.post("/v1/tts", json={**asked, **nulls}).content, by_json.content)
    assert same_sound(client.post("/v1/tts", json={**asked, **within}).content, by_json.content)
    assert client.post("/v1/tts", json={**asked, "reference_id": ""}).status_code == 200
    default = client.post("/v1/tts", json={"text": TEXT, "prosody": {"speed": 2, "volume": 0}, "temperature": 0.5})
    assert default.headers["content-type"] == "audio/mpeg"
    samples, rate = decode_audio(default.content, "mp3")
    assert len(samples) > 0
    assert rate == server.engine.info.sample_rate


def test_reference_clips_are_used_as_the_voice(client: httpx.Client) -> None:
    asked = {"text": TEXT, "format": "WAV", "seed": 3}
    packed = msgpack.packb({**asked, "references": [{"audio": CLIP.read_bytes(), "text": WORDS}]})
    clip = base64.b64encode(CLIP.read_bytes()).decode()
    one = client.post("/v1/tts", content=packed, headers={"Content-Type": "application/msgpack"})
    other = client.post("/v1/tts", json={**asked, "references": [{"audio": clip, "text": WORDS}]})
    assert one.status_code == other.status_code == 200, one.text
    assert same_sound(one.content, other.content, "wav")
    several = client.post("/v1/tts", json={**asked, "references": [{"audio": clip, "text": WORDS}] * 2})
    assert several.status_code == 200, several.text  # as one longer clip
    assert not same_sound(several.content, one.content, "wav")


def test_references_are_added_listed_renamed_and_deleted(client: httpx.Client) -> None:
    form = {"id": "anna", "text": WORDS}
    files = {"audio": ("clip.flac", CLIP.read_bytes(), "audio/flac")}
    refused = client.post("/v1/references/add", data=form, files=files)
    assert refused.status_code == 400
    assert "speaker has agreed" in refused.json()["error"]["message"]
    added = client.post("/v1/references/add", data={**form, "consent": "Anna Gray"}, files=files)
    assert added.json() == {"success": True, "message": "OK", "reference_id": "anna"}
    assert client.post("/v1/references/add", data={**form, "consent": "Anna"}, files=files).status_code == 409
    assert "anna" in client.get("/v1/references/list").json()["reference_ids"]
    assert client.post("/v1/tts", json={"text": "Hi.", "reference_id": "anna"}).status_code == 200
    names = {"old_reference_id": "anna", "new_reference_id": "annie"}
    renamed = client.post("/v1/references/update", json=names)
    assert renamed.json() == {"success": True, "message": "OK", **names}
    assert client.post("/v1/references/update", json=names).status_code == 404
    for status in (200, 404):
        gone = client.request("DELETE", "/v1/references/delete", json={"reference_id": "annie"})
        assert gone.status_code == status
    assert not {"anna", "annie"} & set(client.get("/v1/references/list").json()["reference_ids"])


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"\xc1", "application/msgpack", 400),
        (b"{", "application/json", 400),
        (b'{"text": ""}', "application/json", 400),
        (b'{"text": "Hi.", "references": [{"audio": "!"}]}', "application/json", 400),
        (b'{"text": "Hi.", "reference_id": "Nobody"}', "application/json", 404),
        (b"Hi.", "text/plain", 415),
    ],
)
def test_invalid_requests_are_rejected(client: httpx.Client, content: bytes, kind: str, status: int) -> None:
    refused = client.post("/v1/tts", content=content, headers={"Content-Type": kind})
    assert refused.status_code == status
    assert refused.json()["error"]["message"]
