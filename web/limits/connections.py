"""Limits on connections. uvicorn only closes connections that are idle after a response. These limits cover the number
of connections, clients that send no request, send it slowly, or do not read the response, and responses that go on
after the server was stopped.

Gradio has no option for them. `limit_connections` changes the protocol class in the config of the running server, which
applies to all later connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from array import array
from collections.abc import Sequence
from typing import Any

import h11
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from web.http.hosts import is_loopback

HEAD_SECONDS = 10.0  # from the connection's start or a request's first byte to the end of its headers
# Between requests: longer than proxies keep an idle connection (nginx 60 s, Traefik and cloudflared 90 s, Caddy 120 s,
# Google's load balancers 600 s). One that is reused while the server closes it makes a proxy answer 502.
IDLE_SECONDS = 630
STALLED_SECONDS = 30.0  # without progress in sending a response
UNSENT = 1 << 17  # bytes that the system holds for a client; by default megabytes
# Of a WebSocket, for its pong and without progress in sending: a client that reads as fast as it plays reaches a ping
# after the audio before it, minutes later.
PONG_SECONDS = 600.0
LAST_SECONDS = 2.0  # for open responses, once the server is stopped; Gradio waits five seconds for all of them
MAX_HEAD = 32 << 10  # bytes of a request line and headers
MAX_MESSAGE = 32 << 20  # bytes of a WebSocket's message, which may hold a clip, as a request's body may
MAX_CONNECTIONS, MAX_OF_A_PEER = 800, 100
_STOPPING_BODY = json.dumps(
    {
        "error": {  # as in api/errors.py
            "message": "The server is stopping: try again in a moment.",
            "type": "server_error",
            "param": None,
            "code": "server_stopping",
        }
    }
)
_STOPPING_HEAD = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
    f"Retry-After: 5\r\nConnection: close\r\nContent-Length: {len(_STOPPING_BODY)}\r\n"
)
FILES = 8_192  # open files of the process, if the system allows it


def limit_connections(server: uvicorn.Server) -> None:
    """Apply these limits to new connections of a running server."""
    server.config.h11_max_incomplete_event_size = MAX_HEAD
    server.config.timeout_keep_alive = IDLE_SECONDS
    server.config.ws_ping_timeout = PONG_SECONDS
    server.config.ws_max_size = MAX_MESSAGE
    server.config.ws_per_message_deflate = False  # a few kilobytes could be such a message
    server.config.http_protocol_class = BoundedConnection
    server.config.ws_protocol_class = WebSocketConnection
    _allow_files()


class _ReaderLimit(asyncio.Protocol):
    """Drops the connection of a client that reads nothing of what is sent. Closing would wait for it without end."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    _stalled: asyncio.TimerHandle | None = None

    @property
    def _patience(self) -> float:
        """Seconds without progress."""
        return STALLED_SECONDS

    def pause_writing(self) -> None:
        """Start the timeout for a client that does not read."""
        super().pause_writing()
        if self._stalled is None:
            self._await_reader()

    def resume_writing(self) -> None:
        """Stop that timeout."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop that timeout."""
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def _await_reader(self) -> None:
        unsent = _unread(self.transport)
        self._stalled = self.loop.call_later(self._patience, self._check_reader, unsent)

    def _check_reader(self, unsent: int) -> None:
        """Drop the connection if nothing was read since; a client that plays what it reads takes minutes."""
        if _unread(self.transport) < unsent:
            self._await_reader()
        else:
            _discard_unsent(self.transport)
            self.drop()

    def _stop_waiting_for_reader(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class BoundedConnection(_ReaderLimit, H11Protocol):
    """One connection. Beyond the limits, the longest idle connection is dropped; if none is idle, the new one."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting_since = 0.0
        self._head: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn declares it without None
        return cycle is None or cycle.response_complete

    @property
    def _is_shared(self) -> bool:
        """Whether the peer may connect for many visitors: a program here, or a proxy whose headers are trusted."""
        peer = _peer_of(self)
        return is_loopback(peer) or (isinstance(self.app, ProxyHeadersMiddleware) and peer in self.app.trusted_hosts)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first request, and enforce the connection limits."""
        super().connection_made(transport)
        _limit_unsent(transport)
        self._waiting_since = self.loop.time()
        self._await_head()
        others = [each for each in self.connections if each is not self]  # WebSockets included
        siblings = [] if self._is_shared else [each for each in others if _peer_of(each) == _peer_of(self)]
        if len(siblings) >= MAX_OF_A_PEER:
            _make_room(siblings, self)
        elif len(others) >= MAX_CONNECTIONS:
            _make_room(others, self)

    def data_received(self, data: bytes) -> None:
        """Start the timeout of a request's headers, and stop it when they are complete."""
        if self.idle:
            self._await_head()
        super().data_received(data)
        if not self.idle:
            self._stop_waiting_for_head()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Stop the timeout of the headers: the WebSocket protocol takes over the connection."""
        self._stop_waiting_for_head()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Mark the connection idle. The rest of a request that was refused must arrive soon."""
        super().on_response_complete()
        self._waiting_since = self.loop.time()
        if self.conn.their_state is h11.SEND_BODY:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts."""
        self._stop_waiting_for_head()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Let a response end in time. Then refuse a request without a response, and close the connection: the client of
        an incomplete response knows that a part is missing."""
        super().shutdown()
        self.loop.call_later(LAST_SECONDS, self._refuse_or_drop)

    def _refuse_or_drop(self) -> None:
        if self.idle or self.cycle.response_started or self.transport.is_closing():
            self.drop()
        else:
            known = self.cycle.scope.get("state", {}).get("request_id")  # as in api/request_ids.py
            head = _STOPPING_HEAD + (f"X-Request-Id: {known}\r\n" if known else "")
            self.transport.write(f"{head}\r\n{_STOPPING_BODY}".encode())
            self.transport.close()

    def _await_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_waiting_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        self._head = None
        if self.idle:
            self.drop()


class WebSocketConnection(_ReaderLimit, WebSocketsSansIOProtocol):
    """One WebSocket. uvicorn takes the handshake of one that was refused with a response for incomplete, and logs that
    as an error."""

    @property
    def _patience(self) -> float:
        return PONG_SECONDS

    async def send(self, message: Any) -> None:
        """Send a message; after a refusal the handshake is complete."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent


def _peer_of(connection: asyncio.Protocol) -> str:
    client: tuple[str, int] | None = getattr(connection, "client", None)
    return client[0] if client else ""


def _unread(transport: asyncio.Transport) -> int:
    """Return the bytes that the client has not received. Where the system does not tell how many it holds, progress is
    seen only when it takes more: from a client at 32 kbit/s about every half minute."""
    held = array("i", [0])
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):  # ValueError: it is closed
        import fcntl
        import termios

        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
    return transport.get_write_buffer_size() + held[0]


def _limit_unsent(transport: asyncio.Transport) -> None:
    """Limit the bytes that the system holds for a client, if it can, and have any others call `pause_writing`."""
    transport.set_write_buffer_limits(0)
    with contextlib.suppress(AttributeError, OSError):
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)


def _discard_unsent(transport: asyncio.Transport) -> None:
    """Have the system forget what it holds for a client when the connection is closed, which is reset."""
    with contextlib.suppress(AttributeError, OSError):
        at_once = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)


def _make_room(others: Sequence[asyncio.Protocol], new: BoundedConnection) -> None:
    idle = [each for each in others if isinstance(each, BoundedConnection) and each.idle]
    min(idle, key=lambda each: each._waiting_since, default=new).drop()


def _allow_files() -> None:
    """Raise the process's limit of open files (often 1,024): each connection is an open file."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # not supported, or not permitted
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
