"""All use of Gradio's private attributes. `tests/web/test_gradio_internals.py` fails where one is missing.

Sessions: their ids are made up by the page, and anyone can make up as many as they like. Gradio 6.31 keeps for each a
copy of the page's whole configuration (`SessionState.config_values`: 170 KB, and 30 ms of the event loop to make),
messages that its page has not fetched, ids of its events, and a row of statistics for each event. The page has no
`gr.State` and no deep links, so that a session that comes again misses nothing of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

if TYPE_CHECKING:
    import uvicorn
    from gradio.block_function import BlockFunction
    from starlette.requests import Request

# For `launch`: without the second check of its own address, which fails when a busy machine takes over three seconds.
# The first, of `startup-events`, waits.
NO_SECOND_CHECK: dict[str, Any] = {"_frontend": False}
SESSIONS = 1_000
STATISTICS = 100  # events; Gradio makes a table of them after each event
QUEUE_POLL = 0.005  # s between looks into an empty queue; at Gradio's 0.001 they take 5 % of a processor at all times


class SlimSessionState(SessionState):
    """A session without a copy of the configuration, which only deep links read."""

    def __init__(self, blocks: gr.Blocks) -> None:
        self.blocks_config = copy(blocks.default_config)
        self.config_values: dict[int, dict[str, Any]] = {}
        self.state_data: dict[int, Any] = {}
        self._state_ttl: dict[int, Any] = {}
        self.is_closed = False
        self.STATE_TTL_WHEN_CLOSED = 3600

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value)
        self.config_values.clear()

    def _update_config(self, key: int) -> None:
        """Keep nothing."""

    def _update_value_in_config(self, key: int, value: Any) -> None:
        """Keep nothing."""


class SlimStateHolder(StateHolder):
    """Makes slim states, and drops the least recently used."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = SlimSessionState(self.blocks)
        return super().__getitem__(session_id)


class BoundedMessages(LRUCache[str, "asyncio.Queue[Any]"]):
    """Messages by session. Beyond the limit, sessions without running events are dropped first."""

    def __init__(self, most: int, events: dict[str, set[str]]) -> None:
        """events: ids of events whose end was not fetched, by session; dropped with their session."""
        super().__init__(most)
        self._events = events

    def __setitem__(self, session: str, messages: asyncio.Queue[Any]) -> None:
        if session not in self and len(self) >= self.max_size:
            idle = (each for each in self if not self._events.get(each))
            unread_messages = (each for each in self if not self[each].empty())
            del self[next(chain(idle, unread_messages, self))]
        super().__setitem__(session, messages)

    def __delitem__(self, session: str) -> None:
        super().__delitem__(session)
        self._events.pop(session, None)


class BoundedEventIds(set[str]):
    """Ids of cancelled events, which Gradio looks up when one of them continues."""

    def add(self, event: str) -> None:
        if len(self) >= SESSIONS:
            self.pop()
        super().add(event)


@asynccontextmanager
async def limit_sessions(app: Any) -> AsyncIterator[None]:
    """Bound the sessions of Gradio's app, and what its queue takes at rest: a `lifespan` for `launch`'s `app_kwargs`,
    entered before any request."""
    blocks = app.get_blocks()
    app.state_holder = SlimStateHolder()  # type: ignore[no-untyped-call]
    app.state_holder.set_blocks(blocks)
    app.state_holder.capacity = SESSIONS
    queue = blocks._queue
    queue.pending_messages_per_session = BoundedMessages(SESSIONS, queue.pending_event_ids_session)
    queue.ANALYTICS_MAX_EVENTS = STATISTICS
    queue.sleep_when_free = QUEUE_POLL
    app.iterators_to_reset = BoundedEventIds()
    yield


def unread_messages(blocks: gr.Blocks, session: str) -> int | None:
    """Number of a session's messages that its page has not fetched; None where the session is unknown."""
    messages = blocks._queue.pending_messages_per_session.get(session)
    return None if messages is None else messages.qsize()


def drop_unread_messages(blocks: gr.Blocks, session: str) -> None:
    """Drop the messages that a page has not fetched."""
    messages = blocks._queue.pending_messages_per_session.get(session)
    while messages is not None and not messages.empty():
        messages.get_nowait()


def is_admitted(request: Request) -> bool:
    """Whether the server has no accounts, or the request is of a logged-in user, as for Gradio's own routes."""
    app: Any = request.scope["app"]
    if app.auth is None:
        return True
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    token = next(filter(None, map(request.cookies.get, names)), None)
    return app.tokens.get(token) is not None


class RawInputBlocks(gr.Blocks):
    """Blocks whose handlers get their inputs as the browser sent them, and parse them (`web.ui.payloads`).

    Gradio would copy, or fetch from elsewhere, every file that a value names, and keep each input of each session.
    """

    async def preprocess_data(
        self,
        block_fn: BlockFunction,
        inputs: list[Any],
        state: SessionState | None,
        explicit_call: bool = False,
    ) -> list[Any]:
        """The inputs as they are; `web.http.calls` has checked their number."""
        return list(inputs)


def event_value(event: object) -> Any:
    """The value that a component's script sent with an event; any other object as it is."""
    return getattr(event, "_data", event)


def upload_folder(demo: gr.Blocks) -> str:
    """The folder in which Gradio looks for uploads."""
    return str(demo.GRADIO_CACHE)


def running_server(demo: gr.Blocks) -> uvicorn.Server:
    """The server that `launch` started."""
    return demo.server


def serve_own_assets(demo: gr.Blocks) -> None:
    """Serve the page of a started `demo` with scripts of this server, through the tunnel of `share=True` too.

    Gradio's template for shared pages loads its script from a content delivery network, which the page's
    Content-Security-Policy refuses. The template is chosen by `share`, which nothing else reads after the start.
    """
    demo.share = False
