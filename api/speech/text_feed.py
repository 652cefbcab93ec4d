"""A text that a client writes while it is spoken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from engine.text import GrowingText
    from studio.access import Caller
    from studio.speech_service import SpeechService

PAUSE_SECONDS = 0.7  # without a piece: a language model calls a tool, and what it has said is complete


class TextFeed:
    """Appends the pieces of a text for a caller, and tells the text when its writer pauses."""

    def __init__(self, service: SpeechService, caller: Caller, text: GrowingText) -> None:
        self._service, self._caller, self._text = service, caller, text
        self._timer: asyncio.TimerHandle | None = None

    async def append(self, piece: str) -> None:
        """Add a piece. Raises what `SpeechService.extend` raises."""
        self.close()
        await run_in_threadpool(self._service.extend, self._caller, self._text, piece)
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._text.pause)

    def finish(self) -> None:
        """Say that the text is complete."""
        self.close()
        self._text.finish()

    def close(self) -> None:
        """Wait for no further piece."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
