"""Access control of the API: keys, hosts, origins and body sizes."""

import gzip
import socket
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection

import httpx
import pytest

from api import access
from storage.api_keys import Allowance
from storage.errors import VoiceNotFound
from tests.api.conftest import TEXT, Server, bearer
from tests.support.waiting import until

Speak = Callable[..., httpx.Response]
REMOTE = {"Host": "voices.example.org"}


def error_of(response: httpx.Response) -> dict[str, str]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"].endswith((".", "s."))
    return body["error"]


def test_local_client_needs_no_key_while_none_exists(client: httpx.Client) -> None:
    assert client.get("/v1/models").status_code == 200
    assert client.get("/v1/models", headers=bearer("not-needed")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        REMOTE,
        {"X-Forwarded-For": "192.0.2.1"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
    ],
)
def test_remote_and_cross_site_requests_need_a_key(
    client: httpx.Client, server: Server, headers: dict[str, str]
) -> None:
    """Requests of other machines, proxies, rebound host names and pages of other sites."""
    for more in ({}, bearer("not-needed")):
        refused = client.get("/v1/models", headers=headers | more)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert error_of(refused)["code"] == "invalid_api_key"
    with server.key() as key:
        assert client.get("/v1/models", headers=headers | bearer(key)).status_code == 200


def test_all_clients_need_a_key_once_one_exists(client: httpx.Client, server: Server, speak: Speak) -> None:
    with server.key() as key:
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers=bearer(key + "x")).status_code == 401
        assert client.get("/v1/models", headers={"Authorization": f"Basic {key}"}).status_code == 401
        assert speak(bearer(key), response_format="pcm", max_new_tokens=2).status_code == 200
    assert client.get("/v1/models", headers=REMOTE | bearer(key)).status_code == 401


def test_key_gives_access_only_to_its_owners_voices(server: Server, speak: Speak) -> None:
    voices = server.storage.voices
    own = voices.duplicate(voices.find("Emma").id, owner="user:ann")
    voices.rename(own.id, "Mine", owner="user:ann")
    try:
        with server.key("Ann") as ann, server.key("Bob", "user:bob") as bob:
            assert speak(bearer(ann), voice="Mine", max_new_tokens=1).status_code == 200
            for name in ("Mine", own.id):
                refused = speak(bearer(bob), voice=name)
                assert (refused.status_code, error_of(refused)["code"]) == (404, "voice_not_found")
    finally:
        voices.delete(own.id, owner="user:ann")
    with pytest.raises(VoiceNotFound):
        voices.find("Mine", owner="user:ann")


def test_rate_and_quota_are_enforced(client: httpx.Client, server: Server, speak: Speak) -> None:
    with server.key(rate=Allowance(2, 3600)) as key:
        assert [client.get("/v1/models", headers=bearer(key)).status_code for _ in range(3)] == [200, 200, 429]
        refused = client.get("/v1/models", headers=bearer(key))
        assert (error_of(refused)["type"], error_of(refused)["code"]) == ("requests", "rate_limit_exceeded")
        assert 3000 < int(refused.headers["retry-after"]) <= 3601
    with server.key(quota=Allowance(25, 3600)) as key:
        refused = speak(bearer(key), input="Это не английский текст.")
        assert refused.status_code == 400, "a rejected text does not count"
        assert speak(bearer(key), input="The rain stopped.", max_new_tokens=1).status_code == 200
        assert speak(bearer(key), input="....").status_code == 200, "silence counts"
        refused = speak(bearer(key), max_new_tokens=1)
        assert (refused.status_code, error_of(refused)["code"]) == (429, "insufficient_quota")
        assert "retry-after" in refused.headers
        too_long = speak(bearer(key), input="a" * 26)
        assert too_long.status_code == 429
        assert "retry-after" not in too_long.headers, "no wait helps"
        assert error_of(refused)["type"] == "insufficient_quota", "as OpenAI sends it"
        items = {"items": [{"input": TEXT, "voice": "Clara"}]}
        (result,) = client.post("/v1/audio/speech/batch", json=items, headers=bearer(key)).json()["results"]
        assert result["error"] == error_of(refused), "an error has the same type and code everywhere"


def test_large_body_is_rejected_before_it_is_read(server: Server) -> None:
    host = server.url.removeprefix("http://")
    with socket.create_connection(host.split(":"), 10) as connection:  # type: ignore[arg-type]
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}\r\nContent-Length: {access.MAX_WITH_AUDIO + 1}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_chunked_body_is_limited(client: httpx.Client) -> None:
    for path in ("/v1/audio/speech", "/mcp"):
        refused = client.post(path, content=(bytes(1 << 20) for _ in range(40)))
        assert refused.status_code == 413
        assert "larger than 32 MB" in error_of(refused)["message"]


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/speech/batch", "/v1/tts", "/mcp"])
@pytest.mark.parametrize("value", ["[]", "{}", "1"])
def test_body_with_many_values_is_refused_before_it_is_parsed(client: httpx.Client, path: str, value: str) -> None:
    """A body of 32 MB would take five seconds of the event loop, and 800 MB of memory."""
    body = f'{{"input": [{",".join([value] * (access.MAX_VALUES + 1))}]}}'
    refused = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 413
    assert "more than 500,000 values" in error_of(refused)["message"]


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 415), ("GZIP, br", 415), ("identity", 400), ("utf-8", 400)])
def test_compressed_bodies_are_refused_as_such(client: httpx.Client, encoding: str, status: int) -> None:
    """Not as invalid JSON."""
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    for path in ("/v1/audio/speech", "/v1/audio/speech/batch"):
        refused = client.post(path, content=gzip.compress(b"{}"), headers=headers)
        assert refused.status_code == status
        assert ("compressed" in error_of(refused)["message"]) == (status == 415)
        assert refused.headers.get("accept-encoding") == ("identity" if status == 415 else None)


def test_unauthorized_request_is_rejected_before_its_body_is_read(server: Server) -> None:
    host = server.url.removeprefix("http://")
    with server.key(), socket.create_connection(host.split(":"), 10) as connection:  # type: ignore[arg-type]
        connection.sendall(f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_refused_upload_can_be_sent_to_its_end(server: Server) -> None:
    """Some clients read the response only then; Node's `fetch` does not find it in a closed connection."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    with closing(connection):
        for _ in range(2):
            connection.request("POST", "/v1/audio/transcriptions", bytes(8 << 20), REMOTE)
            refused = connection.getresponse()
            assert (refused.status, refused.read()[:9]) == (401, b'{"error":')
            assert connection.sock, "the connection is kept"


def test_refused_client_that_has_not_begun_its_body_is_disconnected(server: Server) -> None:
    """It does not send the body any more, for which its next request would be taken."""
    host = server.url.removeprefix("http://")
    with socket.create_connection(host.split(":"), 10) as connection:  # type: ignore[arg-type]
        head = "Host: voices.example.org\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
        connection.sendall(f"POST /v1/audio/speech HTTP/1.1\r\n{head}".encode())
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 401")


def test_disconnect_within_a_body_is_not_logged_as_error(
    client: httpx.Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def disconnected() -> list[str]:
        """Return the count of disconnected clients as lines of the metrics; other tests share the server."""
        lines = client.get("/metrics").text.splitlines()
        return [line for line in lines if 'operation="create_speech",status="499"' in line]

    before, host = disconnected(), server.url.removeprefix("http://")
    with socket.create_connection(host.split(":"), 10) as connection:  # type: ignore[arg-type]
        connection.sendall(f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{".encode())
    until(lambda: disconnected() != before)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_api_key_does_not_open_the_page(client: httpx.Client, server: Server) -> None:
    """A key gives access to the API but not to the page."""
    with server.key() as key:
        assert client.get("/", headers=bearer(key)).status_code == 401  # without the start-up token
        assert client.get("/", headers=REMOTE | bearer(key)).status_code == 421
        assert client.get("/gradio_api/info", headers=bearer(key)).status_code == 404
        assert client.post("/v1", headers=bearer(key)).status_code == 404
        for path in ("/v1", "/v1/nothing", "/v1/../gradio_api/info", "/v1/audio/speech/nothing"):
            assert client.get(path, headers=bearer(key)).status_code == 404


def test_responses_have_security_headers(client: httpx.Client) -> None:
    headers = client.get("/v1/models").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "access-control-allow-origin" not in headers
