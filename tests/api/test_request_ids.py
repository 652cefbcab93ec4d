"""The id of each response."""

import httpx
import openai
import pytest

from tests.api.conftest import TEXT, Server

pytestmark = pytest.mark.usefixtures("short_turns")


def test_every_response_has_an_id(client: httpx.Client) -> None:
    """Refusals too: clients name it in their reports."""
    body = {"input": TEXT, "voice": "Clara"}
    responses = [
        client.get("/v1/models"),
        client.get("/v1/models", headers={"Host": "voices.example.org"}),
        client.post("/v1/audio/speech", json=body),
        client.post("/v1/audio/speech", json={**body, "voice": "Nobody"}),
        client.get("/v1/nothing"),
    ]
    assert [response.status_code for response in responses] == [200, 401, 200, 404, 404]
    ids = [response.headers["x-request-id"] for response in responses]
    assert len(set(ids)) == len(ids)
    assert all(each.startswith("req_") for each in ids)


@pytest.mark.parametrize(("sent", "kept"), [("6f1c-2.b_A", True), ("x" * 200, False), ("a b", False), ("é", False)])
def test_id_of_a_proxy_is_kept(client: httpx.Client, sent: str, kept: bool) -> None:
    response = client.get("/v1/models", headers={b"X-Request-ID": sent.encode()})
    assert response.status_code == 200
    assert (response.headers["x-request-id"] == sent) is kept


def test_python_client_knows_the_id(server: Server) -> None:
    speaking = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0).audio.speech
    with pytest.raises(openai.NotFoundError) as refused:
        speaking.create(model="tts-1", voice="Nobody", input=TEXT)
    assert refused.value.request_id
    with speaking.with_streaming_response.create(model="tts-1", voice="Clara", input=TEXT) as response:
        assert response.request_id
