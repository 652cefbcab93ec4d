"""Limits of socket connections to a served page."""

import asyncio
import contextlib
import errno
import json
import logging
import queue
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake

from api.access import MAX_WITH_AUDIO
from storage import Storage
from tests.support.fake_engine import FakeEngine
from tests.support.looping import run
from tests.web.conftest import serving
from web.limits import connections

TIMEOUT = 20.0  # seconds: generous, since the machine may be busy


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Storage.open(tmp_path_factory.mktemp("connections") / "voices.db") as storage, serving() as serve:
        yield serve(FakeEngine(), storage)


@contextlib.contextmanager
def connected(url: str, **options: Any) -> Iterator[socket.socket]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    with socket.socket() as plain:
        for name, value in options.items():
            plain.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        plain.settimeout(TIMEOUT)
        plain.connect((parts.hostname, parts.port or 80))
        yield plain


@contextlib.asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """Run a server with these limits until the end of the block; return it and its port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off"))
    server.config.load()
    connections.limit_connections(server)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    yield server, server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


def is_closed(plain: socket.socket) -> bool:
    try:
        return plain.recv(1) == b""
    except ConnectionError:
        return True


def test_idle_connections_are_kept_longer_than_by_proxies() -> None:
    """A request on a connection that the server closes meanwhile is a 502. Google's balancers keep them for 600 s."""
    server = uvicorn.Server(uvicorn.Config(Starlette()))
    connections.limit_connections(server)
    assert server.config.timeout_keep_alive > 600


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: loc", b"GET /"])
def test_incomplete_request_times_out(url: str, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with connected(url) as plain:
        plain.sendall(begun)
        assert is_closed(plain)


def test_incomplete_second_request_times_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(url) as plain:
        plain.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first = plain.makefile("rb")
        assert first.readline().split()[1] == b"404"
        length = next(int(line.split()[1]) for line in first if line.startswith(b"content-length"))
        while first.readline().strip():
            pass
        first.read(length)
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)  # not before: the first request must arrive in time
        plain.sendall(b"GET /nothing HTTP/1.1\r\nHost: loc")
        assert is_closed(plain)


def test_unread_response_is_aborted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = len(httpx.get(url, headers={"accept-encoding": "identity"}, timeout=TIMEOUT).content)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.2)
    dropped, drop = threading.Event(), connections.BoundedConnection.drop

    def observed(connection: connections.BoundedConnection) -> None:
        drop(connection)
        dropped.set()

    monkeypatch.setattr(connections.BoundedConnection, "drop", observed)
    with connected(url, SO_RCVBUF=4096) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)  # more than the system's buffers hold
        assert dropped.wait(TIMEOUT)  # the client leaves the response unread
        taken = 0
        with contextlib.suppress(ConnectionError):
            while part := plain.recv(1 << 20):
                taken += len(part)
        assert taken < 40 * page


@pytest.mark.parametrize(
    ("seconds", "buffer", "part"),
    [
        (0.4, 1 << 17, 1 << 15),  # the system's buffer holds minutes, and tells of room when a third of it is free
        pytest.param(0.8, 1 << 14, 1 << 10, marks=pytest.mark.skipif(sys.platform != "linux", reason="not told")),
    ],
)
def test_client_may_read_as_slowly_as_it_plays(
    monkeypatch: pytest.MonkeyPatch, seconds: float, buffer: int, part: int
) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", seconds)
    dropped = threading.Event()
    monkeypatch.setattr(connections.BoundedConnection, "drop", lambda _connection: dropped.set())
    whole = Response(bytes(16 << 20))  # more than the system's buffers hold

    async def read_slowly() -> None:
        async with running(Starlette(routes=[Route("/", lambda _request: whole)])) as (_, port):
            loop = asyncio.get_running_loop()
            with connected(f"http://127.0.0.1:{port}", SO_RCVBUF=buffer) as plain:
                plain.setblocking(False)
                await loop.sock_sendall(plain, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                for _ in range(100):
                    assert await loop.sock_recv(plain, part)
                    await asyncio.sleep(0.02)
                assert not dropped.is_set()
                await asyncio.to_thread(dropped.wait, TIMEOUT)  # since nothing is read

    run(read_slowly)
    assert dropped.is_set()


async def _until_closed(server: uvicorn.Server) -> None:
    async with asyncio.timeout(TIMEOUT):
        while server.server_state.connections:
            await asyncio.sleep(0.01)


def _unsent(server: uvicorn.Server) -> int:
    """Return the bytes that the only connection has not passed to the system."""
    (connection,) = server.server_state.connections
    return connection.transport.get_write_buffer_size()


def test_unread_web_socket_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its application learns that the client is gone. Closing would wait for the client to read the rest."""
    monkeypatch.setattr(connections, "PONG_SECONDS", 0.2)

    async def leave_unread() -> None:
        async def talk(web: WebSocket) -> None:
            await web.accept()
            while True:
                await web.send_bytes(bytes(1 << 14))

        async with (
            running(Starlette(routes=[WebSocketRoute("/", talk)])) as (server, port),
            connect(f"ws://127.0.0.1:{port}/", max_queue=1, ping_interval=None),
        ):
            await _until_closed(server)

    run(leave_unread)


def test_connection_with_an_unread_end_of_a_response_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The response is complete for the application, and too little is left to make it wait."""
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.2)

    async def leave_unread() -> None:
        async def begun() -> AsyncIterator[bytes]:
            while not _unsent(server):
                yield bytes(1 << 14)

        async with running(Starlette(routes=[Route("/", lambda _: StreamingResponse(begun()))])) as (server, port):
            with connected(f"http://127.0.0.1:{port}", SO_RCVBUF=4096) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while not server.server_state.connections:
                    await asyncio.sleep(0)
                await _until_closed(server)
                # The system would hold the rest for as long as the client confirms that it has no room.
                assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET

    run(leave_unread)


def test_body_after_its_response_is_read_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused client may send the rest of its request, but nothing without end."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)

    def send_on(plain: socket.socket) -> None:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            plain.sendall(b"8000\r\n" + bytes(0x8000) + b"\r\n")

    def send(url: str) -> None:
        with connected(url) as plain:
            plain.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert plain.recv(12) == b"HTTP/1.1 401"
            with pytest.raises(ConnectionError):
                send_on(plain)
        with connected(url) as plain:
            plain.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf")
            while plain.recv(1 << 12):  # the response, and then its end, since no more is sent
                pass

    async def refuse_and_go_on() -> None:
        refuse = Route("/", lambda _request: Response("No.", 401), methods=["POST"])
        async with running(Starlette(routes=[refuse])) as (_, port):
            await asyncio.to_thread(send, f"http://127.0.0.1:{port}")

    run(refuse_and_go_on)


def test_long_headers_are_rejected(url: str) -> None:
    with connected(url) as plain:
        with contextlib.suppress(ConnectionError):
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
        with contextlib.suppress(ConnectionError):
            assert plain.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"")


def test_idle_connections_are_kept_longer_than_by_clients(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends a request while the server closes its connection gets no answer."""
    kept: queue.SimpleQueue[float] = queue.SimpleQueue()
    completed = connections.BoundedConnection.on_response_complete

    def observed(connection: connections.BoundedConnection) -> None:
        kept.put(connection.timeout_keep_alive)
        completed(connection)  # the client may have read the response by now

    monkeypatch.setattr(connections.BoundedConnection, "on_response_complete", observed)
    assert httpx.head(f"{url}nothing").status_code == 404
    assert kept.get(timeout=TIMEOUT) > 60  # seconds; httpx keeps an idle connection for five, proxies for up to 60


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> uvicorn.Config:
    """The configuration of a server with these limits."""
    monkeypatch.setattr(connections, "_allow_files", lambda: None)
    server = uvicorn.Server(uvicorn.Config(Starlette()))
    connections.limit_connections(server)
    return server.config


def test_web_sockets_wait_for_a_client_that_plays_what_it_reads(limited: uvicorn.Config) -> None:
    """Its pong follows all audio that was sent before the ping: up to a whole reply of 10,000 characters."""
    assert limited.ws_ping_interval == 20
    assert limited.ws_ping_timeout is not None
    assert limited.ws_ping_timeout >= 600


def test_web_sockets_take_clips_as_large_as_those_of_requests(limited: uvicorn.Config) -> None:
    assert limited.ws_max_size == MAX_WITH_AUDIO


def test_web_sockets_are_not_compressed(limited: uvicorn.Config) -> None:
    """A few kilobytes could be a message of the largest size."""
    assert limited.ws_per_message_deflate is False


def test_idle_connections_are_closed_to_admit_new_ones(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 2 * TIMEOUT)  # only the limit may close one
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(url)) for _ in range(30)]
        assert httpx.get(url, timeout=TIMEOUT).status_code == 200
        assert is_closed(held[0]), "the connection that was idle longest is closed"


def test_busy_connection_is_not_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", TIMEOUT)
    body = json.dumps({"data": [], "fn_index": 0, "session_hash": "abc"}).encode()
    head = b"POST /gradio_api/run/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    with connected(url) as busy, contextlib.ExitStack() as stack:
        busy.sendall(head)
        assert busy.recv(1_000).startswith(b"HTTP/1.1 100"), "the server has started to read the request"
        busy.sendall(body[:5])
        monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
        for _ in range(20):
            stack.enter_context(connected(url))
        assert httpx.get(url, timeout=TIMEOUT).status_code == 200
        busy.sendall(body[5:])
        assert busy.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("limit", "proxies", "admitted"),
    [
        ("MAX_CONNECTIONS", "192.0.2.1", False),
        ("MAX_CONNECTIONS", "127.0.0.1", False),
        ("MAX_OF_A_PEER", "192.0.2.1", False),
        ("MAX_OF_A_PEER", "127.0.0.1", True),
        ("MAX_OF_A_PEER", "192.0.2.1,127.0.0.0/8", True),
    ],
)
def test_websockets_count_as_connections_and_a_proxy_has_those_of_its_visitors(
    monkeypatch: pytest.MonkeyPatch, limit: str, proxies: str, admitted: bool
) -> None:
    monkeypatch.setattr(connections, limit, 2)
    monkeypatch.setattr(connections, "is_loopback", lambda _peer: False)
    stay = asyncio.Event()
    refused = contextlib.nullcontext() if admitted else pytest.raises((InvalidHandshake, ConnectionError))

    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await stay.wait()

    async def open_three() -> None:
        app = Starlette(routes=[WebSocketRoute("/", talk)])
        config = uvicorn.Config(app, port=0, log_level="error", forwarded_allow_ips=proxies)
        server = uvicorn.Server(config)
        config.load()
        connections.limit_connections(server)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        address = f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        async with connect(address), connect(address):
            with refused:
                async with connect(address):
                    pass
        stay.set()
        server.should_exit = True
        await serving

    run(open_three)


def test_a_stopped_server_waits_for_short_responses_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client of a longer response gets no proper end of it, and its handler learns that the client is gone.

    A request without a response is refused.
    """
    stopped, left, asked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def long(request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"begun"
            try:
                while not await request.is_disconnected():
                    await asyncio.sleep(0)
            finally:  # the response ends this generator, too
                left.set()

        return StreamingResponse(parts())

    async def short(_request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"begun"
            await stopped.wait()
            yield b", ended"

        return StreamingResponse(parts())

    async def late(request: Request) -> Response:
        request.state.request_id = "req_1"
        asked.set()
        while not await request.is_disconnected():
            await asyncio.sleep(0)
        return Response()

    async def serve_and_stop() -> None:
        app = Starlette(routes=[Route("/long", long), Route("/short", short), Route("/late", late)])
        async with running(app) as (server, port):
            async with (
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT) as client,
                client.stream("GET", "/long") as one,
                client.stream("GET", "/short") as other,
            ):
                pieces, others = one.aiter_raw(), other.aiter_raw()
                assert [await anext(pieces), await anext(others)] == [b"begun", b"begun"]
                refused = asyncio.create_task(client.get("/late"))
                await asked.wait()
                server.should_exit = True
                stopped.set()
                assert [piece async for piece in others] == [b", ended"]
                with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                    await anext(pieces)
                assert (await refused).status_code == 503
                assert refused.result().json()["error"]["code"] == "server_stopping"
                assert refused.result().headers["x-request-id"] == "req_1"
            await asyncio.wait_for(left.wait(), TIMEOUT)

    monkeypatch.setattr(connections, "LAST_SECONDS", 0.1)
    with caplog.at_level(logging.WARNING):
        run(serve_and_stop)
    assert not caplog.records
