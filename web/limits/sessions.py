"""What Gradio keeps for each open page, bounded. All that is private of Gradio's queue and sessions stands here.

A session is a word that the page makes up; anyone can make up as many as they like. Gradio 6.31 keeps for each: a copy
of the page's whole configuration (`SessionState.config_values`: 170 KB, and 30 ms of the event loop to make), messages
that its page has not fetched, ids of its events, and a line of statistics for each event. The page has no `gr.State`
and no deep links, so that nothing of this is missed by a session that comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

if TYPE_CHECKING:
    import gradio as gr

SESSIONS = 1_000
STATISTICS = 100  # events; Gradio makes a table of all of them after each


class LightState(SessionState):
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
        """Keeps nothing."""

    def _update_value_in_config(self, key: int, value: Any) -> None:
        """Keeps nothing."""


class LightStates(StateHolder):
    """Makes light states, and lets go of the one that was used longest ago."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = LightState(self.blocks)
        return super().__getitem__(session_id)


class Pending(LRUCache[str, "asyncio.Queue[Any]"]):
    """Messages by session. When there are too many sessions those go first that nothing is being done for."""

    def __init__(self, most: int, events: dict[str, set[str]]) -> None:
        """events: ids of events whose end was not fetched, by session; of sessions that go they go too."""
        super().__init__(most)
        self._events = events

    def __setitem__(self, session: str, messages: asyncio.Queue[Any]) -> None:
        if session not in self and len(self) >= self.max_size:
            idle = (each for each in self if not self._events.get(each))
            unread = (each for each in self if not self[each].empty())
            del self[next(chain(idle, unread, self))]
        super().__setitem__(session, messages)

    def __delitem__(self, session: str) -> None:
        super().__delitem__(session)
        self._events.pop(session, None)


class Resets(set[str]):
    """Ids of events that were cancelled, for which Gradio looks when one of them goes on."""

    def add(self, event: str) -> None:
        if len(self) >= SESSIONS:
            self.pop()
        super().add(event)


@asynccontextmanager
async def bounded(app: Any) -> AsyncIterator[None]:
    """Gradio's app with bounded sessions, for `launch`'s `app_kwargs` as its `lifespan`: nothing is served before."""
    blocks = app.get_blocks()
    app.state_holder = LightStates()  # type: ignore[no-untyped-call]
    app.state_holder.set_blocks(blocks)
    app.state_holder.capacity = SESSIONS
    queue = blocks._queue
    queue.pending_messages_per_session = Pending(SESSIONS, queue.pending_event_ids_session)
    queue.ANALYTICS_MAX_EVENTS = STATISTICS
    app.iterators_to_reset = Resets()
    yield


def unread(blocks: gr.Blocks, session: str) -> int | None:
    """How many messages of a session its page has not fetched yet; None where the page is known to be gone."""
    messages = blocks._queue.pending_messages_per_session.get(session)
    return None if messages is None else messages.qsize()


def drop_unread(blocks: gr.Blocks, session: str) -> None:
    """Forget what a page has not fetched."""
    messages = blocks._queue.pending_messages_per_session.get(session)
    while messages is not None and not messages.empty():
        messages.get_nowait()
