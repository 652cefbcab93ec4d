"""All uses of Gradio's private attributes. `tests/web/test_gradio_internals.py` fails if one is missing.

Session ids are chosen by the client, which can create any number of them. For each session, Gradio 6.31 keeps a copy
of the page's whole configuration (`SessionState.config_values`: 170 KB, and 30 ms of the event loop to make), messages
that the page has not fetched, ids of its events, and a row of statistics for each event. The page uses neither
`gr.State` nor deep links, so a session can be dropped and created again without loss.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

import gradio as gr
import httpx
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

from engine.errors import InvalidOption
from web.binding import port_taken

if TYPE_CHECKING:
    import uvicorn
    from gradio.block_function import BlockFunction
    from starlette.requests import Request

# For `launch`: skip its second request to its own address, which fails if a busy machine takes over three seconds. The
# first request, to `startup-events`, has no such limit.
NO_SECOND_CHECK: dict[str, Any] = {"_frontend": False}
NO_FREE_PORT = "Cannot find empty port"  # begins the message of `launch`'s OSError
SESSIONS = 1_000
STATISTICS = 100  # events
QUEUE_POLL = 0.005  # s between polls of an empty queue; Gradio's 0.001 s takes 5 % of a CPU core when idle
PROGRESS_POLL = 5.0  # s between polls for gr.Progress, which nothing uses; Gradio's default is 0.01 s


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
    """Creates slim session states and drops the least recently used."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = SlimSessionState(self.blocks)
        return super().__getitem__(session_id)


class BoundedMessages(LRUCache[str, "asyncio.Queue[Any]"]):
    """Messages by session. Beyond the limit, drops sessions without running events first."""

    def __init__(self, most: int, events: dict[str, set[str]]) -> None:
        """events: ids of events whose completion was not fetched, by session; dropped with their session."""
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


@asynccontextmanager
async def limit_sessions(app: Any) -> AsyncIterator[None]:
    """Limit the sessions of Gradio's app, and the idle load of its queue. A `lifespan` for `launch`'s `app_kwargs`,
    entered before any request."""
    blocks = app.get_blocks()
    app.state_holder = SlimStateHolder()  # type: ignore[no-untyped-call]
    app.state_holder.set_blocks(blocks)
    app.state_holder.capacity = SESSIONS
    queue = blocks._queue
    queue.pending_messages_per_session = BoundedMessages(SESSIONS, queue.pending_event_ids_session)
    queue.ANALYTICS_MAX_EVENTS = STATISTICS
    queue.ANAYLTICS_CACHE_FREQUENCY = math.inf  # else a table is made after every event, with pandas, in up to 8 ms
    queue.sleep_when_free = QUEUE_POLL
    queue.progress_update_sleep_when_free = PROGRESS_POLL
    yield


def unread_messages(blocks: gr.Blocks, session: str) -> int | None:
    """Return the number of messages that a session's page has not fetched; None for an unknown session."""
    messages = blocks._queue.pending_messages_per_session.get(session)
    return None if messages is None else messages.qsize()


def drop_unread_messages(blocks: gr.Blocks, session: str) -> None:
    """Drop the messages that a session's page has not fetched."""
    messages = blocks._queue.pending_messages_per_session.get(session)
    while messages is not None and not messages.empty():
        messages.get_nowait()


def is_admitted(request: Request) -> bool:
    """Return whether the server has no accounts or the user is logged in, as Gradio's own routes check it."""
    app: Any = request.scope["app"]
    if app.auth is None:
        return True
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    token = next(filter(None, map(request.cookies.get, names)), None)
    return app.tokens.get(token) is not None


class RawInputBlocks(gr.Blocks):
    """Blocks that pass inputs to handlers as the browser sent them. Handlers parse them (`web.ui.payloads`).

    Gradio would copy or download every file that a value names, and keep all inputs of each session.
    """

    async def preprocess_data(
        self,
        block_fn: BlockFunction,
        inputs: list[Any],
        state: SessionState | None,
        explicit_call: bool = False,
    ) -> list[Any]:
        """Return the inputs unchanged; `web.http.calls` has checked their number."""
        return list(inputs)


def event_value(event: object) -> Any:
    """Return the value that a component's script sent with an event; any other object unchanged."""
    return getattr(event, "_data", event)


def component_id(component: gr.components.Component) -> int:
    """Return the number by which the page's scripts know a component."""
    return component._id


def upload_folder(demo: gr.Blocks) -> str:
    """Return the folder in which Gradio looks for uploads."""
    return str(demo.GRADIO_CACHE)


def running_server(demo: gr.Blocks) -> uvicorn.Server:
    """Return the server that `launch` started."""
    return demo.server


@contextmanager
def launch_errors(host: str, port: int | None) -> Iterator[None]:
    """Convert errors of `launch` into InvalidOption: of a port that is taken, which names Gradio's own settings, and of
    the request to its own page.

    port: None if the first free one is looked for.
    """
    try:
        yield
    except httpx.TransportError as error:
        raise InvalidOption(
            f"The page cannot be reached at {host} from this machine ({error}). Choose another address by --host."
        ) from error
    except OSError as error:
        if NO_FREE_PORT not in str(error):
            raise
        raise port_taken(host, port) from error


def serve_own_assets(demo: gr.Blocks) -> None:
    """Serve the scripts of a launched `demo` from this server, also through the tunnel of `share=True`.

    Gradio's template for shared pages loads its script from a CDN, which the page's Content-Security-Policy blocks. The
    template is chosen by `share`, which nothing else reads after launch.
    """
    demo.share = False
