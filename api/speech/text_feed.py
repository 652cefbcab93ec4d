"""Feeding of a text that a client writes while it is being spoken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from engine.text import GrowingText
    from studio.access import Caller
    from studio.speech_service import SpeechService

PAUSE_SECONDS = 0.7  # without a piece: a language model may be calling a tool, and its text so far is complete


class TextFeed:
    """Appends pieces to a caller's growing text, and marks pauses of its writer."""

    def __init__(self, service: SpeechService, caller: Caller, text: GrowingText) -> None:
        self._service, self._caller, self._text = service, caller, text
        self._timer: asyncio.TimerHandle | None = None

    async def append(self, piece: str) -> None:
        """Append a piece. Raises what `SpeechService.extend` raises."""
        self.close()
        await run_in_threadpool(self._service.extend, self._caller, self._text, piece)
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._text.pause)

    def finish(self) -> None:
        """Mark the text as complete."""
        self.close()
        self._text.finish()

    def close(self) -> None:
        """Stop waiting for further pieces."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
