"""Streams takes to pages: from the speaking generator to Gradio, without occupying Gradio's threads.

Each take has a thread of `TakeStreams`, which blocks while the take waits in the engine. There are more threads than
takes that can be admitted. Like Gradio's own threads, they run in the event's context, where ZeroGPU finds the visitor
whose quota is charged. Gradio consumes a generator whether or not the page fetches its values. Therefore a take is
paused here while its page is behind, and ended when the page fetches nothing for `READER_TIMEOUT` seconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.request.turns import READER_TIMEOUT
from web.gradio_internals import drop_unread_messages, unread_messages
from web.limits.budgets import TAKES
from web.ui.events import with_nonce

if TYPE_CHECKING:
    from web.context import WebContext
    from web.ui.i18n import Texts

Message = dict[str, Any]
THREADS = TAKES + 16  # so that some are always free to refuse takes
AHEAD = 8  # maximum number of unfetched messages
LOOK = 0.05  # seconds between checks whether they were fetched
TELL = 1.0  # seconds between checks of a waiting take's place
REMIND = 5.0  # seconds until a place is reported again, which lets Gradio detect a closed page


class TakeStreams:
    """Wraps the generators of `web.tabs.speak.handlers` as asynchronous generators for events of one page."""

    def __init__(self, context: WebContext, demo: gr.Blocks, *, unread: float = READER_TIMEOUT) -> None:
        """unread: seconds without fetching after which a page loses its take."""
        self._context, self._demo, self._unread = context, demo, unread
        self._threads = ThreadPoolExecutor(THREADS, "reprise-speak")

    def stream(self, speak: Callable[..., Generator[Message, None, None]]) -> Callable[..., AsyncIterator[Message]]:
        """Return an asynchronous handler with the same inputs. Messages are renumbered, because it adds some:

        wait    status: the take's place in the queue until its first audio, or the progress of loading the model
        """

        @wraps(speak)
        async def generate(*inputs: Any) -> AsyncIterator[Message]:
            request = next((each for each in inputs if isinstance(each, gr.Request)), None)
            take, number = _TakeStream(self._threads, speak(*inputs), self._context), 0
            try:
                while message := await take.next(self._context.texts(request)):
                    yield {**message, "number": number}
                    number += 1
                    if not await self._wait_until_fetched(request, 0 if message["kind"] == "end" else AHEAD):
                        return
            finally:
                take.close()

        return generate

    def gather(
        self, speak: Callable[..., list[tuple[str, Iterator[Message]]]]
    ) -> Callable[..., AsyncIterator[dict[str, Any]]]:
        """Return an asynchronous handler that generates several takes at once, without playing them.

        When a take ends, it yields a value for the list of takes: `tickets` of all takes, `added` (ids of the takes
        saved so far), `problem` (the error of this take, or ""), and `over` (whether all have ended).
        """

        @wraps(speak)
        async def generate(*inputs: Any) -> AsyncIterator[dict[str, Any]]:
            added: list[str] = []
            takes, cancelled = speak(*inputs), threading.Event()
            if not takes:
                yield with_nonce({"added": [], "tickets": [], "problem": "", "over": True})
            ends = [
                asyncio.wrap_future(self._threads.submit(copy_context().run, _last, messages, cancelled))
                for _, messages in takes
            ]
            try:
                for number, end in enumerate(asyncio.as_completed(ends), 1):
                    message = await end
                    if message["take"]:
                        added.append(message["take"])
                    problem = message["status"] if message["problem"] else ""
                    tickets = [ticket for ticket, _ in takes]
                    over = number == len(ends)
                    yield with_nonce({"added": list(added), "tickets": tickets, "problem": problem, "over": over})
            finally:
                cancelled.set()  # for takes that are not registered yet
                for ticket, _ in takes:
                    self._context.running.stop(ticket, "disconnected")

        return generate

    def steps(self, work: Callable[..., Iterator[Message]]) -> Callable[..., AsyncIterator[Message]]:
        """Return an asynchronous handler for a generator that blocks for long between values."""

        @wraps(work)
        async def generate(*inputs: Any) -> AsyncIterator[Message]:
            values, event = work(*inputs), copy_context()
            under_way: Future[Message | None] | None = None
            try:
                while True:
                    under_way = self._threads.submit(event.run, lambda: next(values, None))
                    if (value := await asyncio.wrap_future(under_way)) is None:
                        return
                    yield value
            finally:
                if under_way is not None:
                    under_way.add_done_callback(lambda _: self._threads.submit(_close, values))

        return generate

    async def _wait_until_fetched(self, request: gr.Request | None, most: int) -> bool:
        """Wait until at most `most` messages are unfetched. Return False if the page stopped fetching."""
        session = (request and request.session_hash) or ""
        before: int | None = None
        since = time.monotonic()
        while True:
            behind = unread_messages(self._demo, session)
            if behind is None:
                return False
            if behind <= most:
                return True
            if before is None or behind < before:
                since = time.monotonic()
            elif time.monotonic() - since > self._unread:
                drop_unread_messages(self._demo, session)
                return False
            before = behind
            await asyncio.sleep(LOOK)


def _close(values: Iterator[Message]) -> None:
    if isinstance(values, Generator):
        values.close()


def _last(messages: Iterator[Message], cancelled: threading.Event) -> Message:
    """Run a take to its end and return its last message, or the first if it is cancelled before that.

    The first message comes after the take is registered and before it is spoken.
    """
    first = next(messages)
    if cancelled.is_set():
        _close(messages)
        return first
    *_, last = first, *messages
    return last


class _TakeStream:
    """One take: its generator, and the pending call for the next message."""

    def __init__(
        self, threads: ThreadPoolExecutor, messages: Generator[Message, None, None], context: WebContext
    ) -> None:
        self._threads, self._messages, self._running = threads, messages, context.running
        self._engine = context.engine
        self._event = copy_context()
        self._ticket, self._has_audio = "", False
        self._work: Future[Message | None] | None = None  # the pending call
        self._next: asyncio.Future[Message | None] | None = None  # the same, as a future of the event loop
        self._reported: tuple[int, float] | None = None  # the last place reported, and when

    async def next(self, texts: Texts) -> Message | None:
        """Return the generator's next message, a wait message if it takes long, or None at the end."""
        if self._next is None:
            self._work = self._threads.submit(self._event.run, lambda: next(self._messages, None))
            self._next = asyncio.wrap_future(self._work)
        while not (await asyncio.wait({self._next}, timeout=None if self._has_audio else TELL))[0]:
            if waiting := self._wait_message(texts):
                return waiting
        message, self._next = self._next.result(), None
        if message:
            self._ticket, self._has_audio = message["ticket"], message["kind"] == "chunk"
        return message

    def _wait_message(self, texts: Texts) -> Message | None:
        """Return the progress of loading the model, or the take's place if it changed or REMIND seconds passed."""
        if not self._has_audio and (loading := self._engine.loading):
            status = texts("speech.loading", done=round(loading.done * 100))
            return {"kind": "wait", "ticket": self._ticket, "status": status}
        place, now = self._running.queue_position(self._ticket), time.monotonic()
        if place is None or (self._reported and self._reported[0] == place and now - self._reported[1] < REMIND):
            return None
        self._reported = place, now
        status = texts("speech.next_turn") if place == 0 else texts("speech.waiting_turn", count=place)
        return {"kind": "wait", "ticket": self._ticket, "status": status}

    def close(self) -> None:
        """Stop the take. A thread closes its generator after any pending call."""
        self._running.stop(self._ticket, "disconnected")
        if self._next is not None:
            self._next.cancel()
        if self._work is not None:
            self._work.add_done_callback(lambda _: self._threads.submit(self._messages.close))
