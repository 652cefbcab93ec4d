"""Takes on their way to pages: from the generator that speaks to Gradio, without a thread of Gradio's.

Each take has a thread of `Streams`, of which there are more than takes can be admitted; it blocks there for as long as
the engine lets it wait. Gradio takes what a generator yields whether or not a page fetches it; therefore a take is held
back here while its page is behind, and ended when the page fetches nothing for `READER_TIMEOUT` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.request import READER_TIMEOUT
from web.limits import sessions
from web.limits.budgets import TAKES

if TYPE_CHECKING:
    from web.context import House
    from web.ui.i18n import Words

Message = dict[str, Any]
THREADS = TAKES + 16  # some are always free to refuse what is not admitted
AHEAD = 8  # messages that a page may be behind
LOOK = 0.05  # seconds between two looks whether they were fetched
TELL = 1.0  # seconds between two looks at the place of a take that waits
REMIND = 5.0  # seconds after which a page is told its place again; Gradio finds out by it that a page is gone


class Streams:
    """Makes asynchronous generators of those of `web.tabs.speak.handlers`, for the events of one page."""

    def __init__(self, house: House, demo: gr.Blocks, *, unread: float = READER_TIMEOUT) -> None:
        """unread: seconds that messages may lie without any being fetched."""
        self._house, self._demo, self._unread = house, demo, unread
        self._threads = ThreadPoolExecutor(THREADS, "reprise-speak")

    def of(self, speak: Callable[..., Generator[Message, None, None]]) -> Callable[..., AsyncIterator[Message]]:
        """An event with the same inputs. Its messages are numbered anew, as some are added:

        wait    status: how many are before this take, while it waits for its first turn
        """

        @wraps(speak)
        async def stream(*inputs: Any) -> AsyncIterator[Message]:
            request = next((each for each in inputs if isinstance(each, gr.Request)), None)
            take, number = _Take(self._threads, speak(*inputs), self._house), 0
            try:
                while message := await take.next(self._house.words(request)):
                    yield {**message, "number": number}
                    number += 1
                    if not await self._fetched(request, 0 if message["kind"] == "end" else AHEAD):
                        return
            finally:
                take.let_go()

        return stream

    async def _fetched(self, request: gr.Request | None, most: int) -> bool:
        """Waits until the page is at most so many messages behind; False when it has stopped fetching them."""
        session = (request and request.session_hash) or ""
        before: int | None = None
        since = time.monotonic()
        while True:
            behind = sessions.unread(self._demo, session)
            if behind is None:
                return False
            if behind <= most:
                return True
            if before is None or behind < before:
                since = time.monotonic()
            elif time.monotonic() - since > self._unread:
                sessions.drop_unread(self._demo, session)
                return False
            before = behind
            await asyncio.sleep(LOOK)


class _Take:
    """One take: its generator, and the thread's work on the next message."""

    def __init__(self, threads: ThreadPoolExecutor, spoken: Generator[Message, None, None], house: House) -> None:
        self._threads, self._spoken, self._running = threads, spoken, house.running
        self._ticket, self._heard = "", False
        self._work: Future[Message | None] | None = None  # on the next message
        self._coming: asyncio.Future[Message | None] | None = None  # the same, for the event loop
        self._told: tuple[int, float] | None = None  # its place, and when the page was told

    async def next(self, words: Words) -> Message | None:
        """The generator's next message, or what there is to be said until it comes; None at the end."""
        if self._coming is None:
            self._work = self._threads.submit(next, self._spoken, None)
            self._coming = asyncio.wrap_future(self._work)
        while not (await asyncio.wait({self._coming}, timeout=None if self._heard else TELL))[0]:
            if waiting := self._waiting(words):
                return waiting
        message, self._coming = self._coming.result(), None
        if message:
            self._ticket, self._heard = message["ticket"], message["kind"] == "chunk"
        return message

    def _waiting(self, words: Words) -> Message | None:
        """The take's place, when it is another one or was told long ago."""
        place, now = self._running.place(self._ticket), time.monotonic()
        if place is None or (self._told and self._told[0] == place and now - self._told[1] < REMIND):
            return None
        self._told = place, now
        status = words("speech.next_turn") if place == 0 else words("speech.waiting_turn", count=place)
        return {"kind": "wait", "ticket": self._ticket, "status": status}

    def let_go(self) -> None:
        """End the take, whatever it is doing; a thread closes its generator as soon as that is possible."""
        self._running.stop(self._ticket)
        if self._coming is not None:
            self._coming.cancel()
        if self._work is not None:
            self._work.add_done_callback(lambda _: self._threads.submit(self._spoken.close))
