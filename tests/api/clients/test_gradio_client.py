"""Gradio endpoints with `gradio_client`."""

import base64

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError, AuthenticationError

from tests.api.conftest import TEXT, Server, bearer, decode_audio
from tests.support.waiting import until

PLACE = "/v1/gradio"
LONG = "The rain has stopped at last, and all the birds are singing. " * 160  # minutes
SAMPLES = ["Adam", "Ben", "Clara", "Daniel", "Emma", "Flora"]


@pytest.mark.usefixtures("short_turns")
def test_client_finds_endpoints_and_speaks(server: Server) -> None:
    client = Client(server.url + PLACE, verbose=False)
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    assert set(endpoints) == {"/speak", "/list_voices"}
    assert [each["parameter_name"] for each in endpoints["/speak"]["parameters"]] == [
        "text", "voice", "format", "speed", "seed",
    ]  # fmt: skip
    assert endpoints["/speak"]["description"] == "Speak a text in a voice; returns the audio as a data URL."
    assert endpoints["/speak"]["returns"][0]["python_type"]["type"] == "str"
    assert [voice["name"] for voice in client.predict(api_name="/list_voices")] == SAMPLES
    head, _, data = client.predict(TEXT, voice="Clara", seed=7, api_name="/speak").partition(",")
    assert head == "data:audio/mpeg;base64"
    samples, rate = decode_audio(base64.b64decode(data), "mp3")
    assert 0.3 < len(samples) / rate < 5
    with pytest.raises(AppError, match="no voice called “Nobody”"):
        client.predict(TEXT, voice="Nobody", api_name="/speak")
    with pytest.raises(AppError, match="response_format"):
        client.predict(TEXT, format="tape", api_name="/speak")


def test_cancelled_call_ends_its_speech(server: Server) -> None:
    client = Client(server.url + PLACE, verbose=False)
    job = client.submit(LONG, voice="Clara", api_name="/speak")
    until(lambda: server.speaking() and job.communicator.event_id)
    job.cancel()
    until(lambda: server.busy() == 0)
    assert Client(server.url + PLACE, verbose=False).predict(api_name="/list_voices")


def test_disconnected_client_ends_its_speech(server: Server, client: httpx.Client) -> None:
    call = {"fn_index": 0, "data": [LONG, "Clara", "mp3", 1, 7], "session_hash": "abc"}
    assert client.post(f"{PLACE}/gradio_api/queue/join", json=call).status_code == 200
    with client.stream("GET", f"{PLACE}/gradio_api/queue/data", params={"session_hash": "abc"}) as events:
        assert events.status_code == 200
        until(server.speaking)
    until(lambda: server.busy() == 0)


def test_endpoints_need_an_api_key(server: Server) -> None:
    with server.key() as key:
        with pytest.raises(AuthenticationError):
            Client(server.url + PLACE, verbose=False)
        voices = Client(server.url + PLACE, verbose=False, headers=bearer(key)).predict(api_name="/list_voices")
    assert [voice["name"] for voice in voices] == SAMPLES


@pytest.mark.parametrize(
    "path", ["/", "/gradio_api/upload", "/gradio_api/file=/etc/hostname", "/gradio_api/api/speak", "/assets/x.js"]
)
def test_other_gradio_routes_are_not_found(client: httpx.Client, path: str) -> None:
    for method in ("GET", "POST"):
        assert client.request(method, PLACE + path).status_code == 404


@pytest.mark.parametrize(
    "changed",
    [
        {"fn_index": 99}, {"fn_index": -1}, {"fn_index": "x"}, {"data": "text"}, {"data": []}, {"data": [[]] * 5},
        {"data": [{"path": "/etc/hostname", "meta": {"_type": "gradio.FileData"}}] * 5}, {"session_hash": None},
        {"event_data": {"x": 1}}, {"trigger_id": 7}, {"batched": True},
    ],
)  # fmt: skip
def test_malformed_calls_are_rejected(client: httpx.Client, changed: dict[str, object]) -> None:
    call = {"fn_index": 0, "data": ["Hi.", "Clara", "mp3", 1, 7], "session_hash": "abc", **changed}
    refused = client.post(f"{PLACE}/gradio_api/queue/join", json=call)
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
    for path in ("queue/join", "cancel"):
        assert client.post(f"{PLACE}/gradio_api/{path}", content=b"{").status_code == 400
