"""Streams of takes to pages: from the speaking generator to Gradio, without one of Gradio's threads.

Each take has a thread of `TakeStreams`, of which there are more than takes can be admitted; it blocks there while the
take waits in the engine. It runs in the event's context, as Gradio's own threads do: ZeroGPU finds the visitor there,
whose quota counts. Gradio consumes a generator whether or not a page fetches its values; therefore a take is held back
here while its page is behind, and ended when the page fetches nothing for `READER_TIMEOUT` seconds.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.request import READER_TIMEOUT
from web.gradio_internals import drop_unread_messages, unread_messages
from web.limits.budgets import TAKES

if TYPE_CHECKING:
    from web.context import WebContext
    from web.ui.i18n import Words

Message = dict[str, Any]
THREADS = TAKES + 16  # some are always free to refuse takes
AHEAD = 8  # messages that a page may be behind
LOOK = 0.05  # seconds between two checks whether they were fetched
TELL = 1.0  # seconds between two checks of a waiting take's place
REMIND = 5.0  # seconds after which a place is reported again; by it Gradio notices that a page is gone


class TakeStreams:
    """Makes asynchronous generators of those of `web.tabs.speak.handlers`, for the events of one page."""

    def __init__(self, context: WebContext, demo: gr.Blocks, *, unread: float = READER_TIMEOUT) -> None:
        """unread: seconds after which a page that fetches no messages loses its take."""
        self._context, self._demo, self._unread = context, demo, unread
        self._threads = ThreadPoolExecutor(THREADS, "reprise-speak")

    def stream(self, speak: Callable[..., Generator[Message, None, None]]) -> Callable[..., AsyncIterator[Message]]:
        """An asynchronous handler with the same inputs. Its messages are renumbered, because it adds some:

        wait    status: the take's place in the queue, while it waits for its first turn; or that the model is loaded
        """

        @wraps(speak)
        async def generate(*inputs: Any) -> AsyncIterator[Message]:
            request = next((each for each in inputs if isinstance(each, gr.Request)), None)
            take, number = _TakeStream(self._threads, speak(*inputs), self._context), 0
            try:
                while message := await take.next(self._context.words(request)):
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
        """An asynchronous handler that makes several takes at once, unheard.

        It yields the tickets of all, the ids of those that are finished, as the list of takes has them: `added`, and
        `problem`, why one came to nothing.
        """

        @wraps(speak)
        async def generate(*inputs: Any) -> AsyncIterator[dict[str, Any]]:
            added: list[str] = []
            takes = speak(*inputs)
            if not takes:
                yield {"added": added, "tickets": [], "problem": "", "over": True, "once": secrets.token_hex(4)}
            ends = [
                asyncio.wrap_future(self._threads.submit(copy_context().run, _last, messages)) for _, messages in takes
            ]
            try:
                for number, end in enumerate(asyncio.as_completed(ends), 1):
                    message = await end
                    if message["take"]:
                        added.append(message["take"])
                    problem = message["status"] if message["problem"] else ""
                    yield {
                        "added": list(added),
                        "tickets": [ticket for ticket, _ in takes],
                        "problem": problem,
                        "over": number == len(ends),
                        "once": secrets.token_hex(4),
                    }
            finally:
                for ticket, _ in takes:
                    self._context.running.stop(ticket)

        return generate

    def steps(self, work: Callable[..., Iterator[Message]]) -> Callable[..., AsyncIterator[Message]]:
        """An asynchronous handler of work that takes long between two values."""

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
        """Wait until the page is at most so many messages behind; False when it stopped fetching."""
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


def _last(messages: Iterator[Message]) -> Message:
    """Speak a take to its end. Returns its last message."""
    *_, last = messages
    return last


class _TakeStream:
    """One take: its generator, and the thread's work on the next message."""

    def __init__(
        self, threads: ThreadPoolExecutor, messages: Generator[Message, None, None], context: WebContext
    ) -> None:
        self._threads, self._messages, self._running = threads, messages, context.running
        self._engine = context.engine
        self._event = copy_context()
        self._ticket, self._has_audio = "", False
        self._work: Future[Message | None] | None = None  # on the next message
        self._next: asyncio.Future[Message | None] | None = None  # the same, for the event loop
        self._reported: tuple[int, float] | None = None  # its place, and when it was reported

    async def next(self, words: Words) -> Message | None:
        """The generator's next message, or a wait message until it comes; None at the end."""
        if self._next is None:
            self._work = self._threads.submit(self._event.run, self._following)
            self._next = asyncio.wrap_future(self._work)
        while not (await asyncio.wait({self._next}, timeout=None if self._has_audio else TELL))[0]:
            if waiting := self._wait_message(words):
                return waiting
        message, self._next = self._next.result(), None
        if message:
            self._ticket, self._has_audio = message["ticket"], message["kind"] == "chunk"
        return message

    def _following(self) -> Message | None:
        return next(self._messages, None)

    def _wait_message(self, words: Words) -> Message | None:
        """The take's place, when it has changed or was reported long ago; or how far the model is loaded."""
        if not self._has_audio and (loading := self._engine.loading):
            status = words("speech.loading", done=round(loading.done * 100))
            return {"kind": "wait", "ticket": self._ticket, "status": status}
        place, now = self._running.place(self._ticket), time.monotonic()
        if place is None or (self._reported and self._reported[0] == place and now - self._reported[1] < REMIND):
            return None
        self._reported = place, now
        status = words("speech.next_turn") if place == 0 else words("speech.waiting_turn", count=place)
        return {"kind": "wait", "ticket": self._ticket, "status": status}

    def close(self) -> None:
        """End the take at any point; a thread closes its generator as soon as that is possible."""
        self._running.stop(self._ticket)
        if self._next is not None:
            self._next.cancel()
        if self._work is not None:
            self._work.add_done_callback(lambda _: self._threads.submit(self._messages.close))
