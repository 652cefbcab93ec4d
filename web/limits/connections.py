"""Connections that cannot be held for nothing. uvicorn closes those that are idle after an answer; these rules are for
those that never send a request, send it slowly, or take no answer, and for their number.

`bound` puts them into the server that Gradio has started, which offers no option for it: the class in its config makes
every connection that comes after.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from web.http.hosts import is_loopback

HEAD_SECONDS = 10.0  # from a request's first byte, or the connection's beginning, to the end of its headers
STALLED_SECONDS = 30.0  # an answer that the client takes nothing of
MOST_HEAD = 32 << 10  # bytes of a request's line and headers
MOST, MOST_OF_A_PEER = 800, 100
FILES = 8_192  # that the process may have open, where the system lets it


def bound(server: uvicorn.Server) -> None:
    """Have these rules for the connections of a running server."""
    server.config.h11_max_incomplete_event_size = MOST_HEAD
    server.config.http_protocol_class = BoundedConnection
    _allow_files()


class BoundedConnection(H11Protocol):
    """One connection. Beyond the limits the one that has been idle longest goes; where none is, the new one."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting_since = 0.0
        self._head: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room for itself, and waits for a request."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        self._await_head()
        others = [each for each in self.connections if isinstance(each, BoundedConnection) and each is not self]
        peer = self.client[0] if self.client else ""
        siblings = [] if is_loopback(peer) else [each for each in others if each.client and each.client[0] == peer]
        if len(siblings) >= MOST_OF_A_PEER:
            _make_room(siblings, self)
        elif len(others) >= MOST:
            _make_room(others, self)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request that has to be there in time."""
        if self.idle:
            self._await_head()
        super().data_received(data)
        if not self.idle:
            self._head = _stopped(self._head)

    def on_response_complete(self) -> None:
        """The next request may take its time to come."""
        super().on_response_complete()
        self._waiting_since = self.loop.time()

    def pause_writing(self) -> None:
        """The client takes nothing at present."""
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(STALLED_SECONDS, self.drop)

    def resume_writing(self) -> None:
        """The client takes something again."""
        super().resume_writing()
        self._stalled = _stopped(self._stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._head, self._stalled = _stopped(self._head), _stopped(self._stalled)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Ends it at once."""
        self.transport.abort()

    def _await_head(self) -> None:
        self._head = self._head or self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        self._head = None
        if self.idle:
            self.drop()


def _make_room(others: list[BoundedConnection], new: BoundedConnection) -> None:
    idle = [each for each in others if each.idle]
    min(idle, key=lambda each: each._waiting_since, default=new).drop()


def _stopped(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _allow_files() -> None:
    """Connections are files; many systems allow 1,024 unless asked for more."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limit here, or none that may be raised
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
