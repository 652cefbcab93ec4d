"""Sending of one reply in a live session."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from api.errors import detail_of

if TYPE_CHECKING:
    from api.speech.stream import EncodedSpeech, Part
    from engine.text import GrowingText
    from studio.engines.speech_metrics import SpeechMetrics, Usage
    from studio.words.playback_position import PlayedWords


class Reply:
    """One reply, which sends its audio and sentence events. text: grows while it is spoken."""

    def __init__(
        self,
        socket: WebSocket,
        text: GrowingText,
        stream: EncodedSpeech,
        words: PlayedWords,
        metrics: SpeechMetrics,
        *,
        tells_words: bool = False,
    ) -> None:
        self.text = text
        self._socket, self._stream, self._words, self._metrics = socket, stream, words, metrics
        self._tells_words = tells_words
        self._sentence = -1  # index of the one being sent
        self._sent_at: float | None = None  # time of the first audio
        self.heard_until = 0.0  # `time.monotonic` when all sent audio has been played
        self.ended = False  # whether `session.done` has been sent
        self._complete = False  # whether the client has sent all of the text
        self._task = asyncio.create_task(self._send())

    @property
    def over(self) -> bool:
        """Whether everything, or an error, has been sent."""
        return self._task.done()

    @property
    def is_due(self) -> bool:
        """Whether the client waits for the server: all of the text has arrived, and not all of its speech is sent."""
        return self._complete and not self.over

    def complete(self) -> None:
        """Note that the text is complete: `session.done` is sent even if the speech fails."""
        self._complete = True

    async def finish(self) -> None:
        """Send `session.done` with the usage so far."""
        self.ended = True
        self._stream.usage.characters = len(self.text)
        await self._tell("session.done", usage=reply_usage(self._stream.usage, self._sentence + 1))

    async def stop(self) -> None:
        """End the speech within one frame; nothing more is sent."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def interrupt(self, seconds: float | None) -> None:
        """Stop, and send the words that were heard. seconds: of audio played; None for the time since the first audio
        was sent.
        """
        now = time.monotonic()
        await self.stop()
        if seconds is None:
            seconds = now - self._sent_at if self._sent_at is not None else 0.0
        seconds = min(seconds, self._words.seconds)
        heard = self._words.until(seconds)
        await self._tell("interrupted", heard=heard.heard, unheard=heard.unheard, seconds=round(seconds, 3))

    async def _send(self) -> None:
        gone = False
        try:
            async for part in self._stream.parts():
                await self._send_part(part)
            self._words.finish()
            await self._end_sentence(self._words.seconds)
            await self.finish()
        except WebSocketDisconnect:
            gone = True
        except Exception as error:
            with suppress(RuntimeError, WebSocketDisconnect):
                await self._tell("error", error=detail_of(error).model_dump())
                if self._complete and not self.ended:
                    await self.finish()
        finally:
            self.heard_until = max(self.heard_until, time.monotonic())  # the session is not idle before
            self._stream.close()
            self._stream.usage.characters = len(self.text)
            gone = gone or self._task.cancelling() > 0
            self._metrics.count("live", self._stream.usage, gone=gone, failed=self._stream.failed)

    async def _send_part(self, part: Part) -> None:
        if part.chunk is not None:
            before = self._words.seconds
            if self._words.add(part.chunk):
                await self._end_sentence(before)
                self._sentence += 1
                await self._tell(
                    "audio.start",
                    sentence_index=self._sentence,
                    sentence_text=part.chunk.text,
                    format=self._stream.format,
                    sample_rate=self._stream.sample_rate,
                    seconds=round(before, 3),
                )
        if part.words and self._tells_words:
            await self._tell("audio.words", words=[word.model_dump() for word in part.words])
        if part.data:
            await self._socket.send_bytes(part.data)
            if self._sent_at is None:
                self._sent_at = time.monotonic()
            self.heard_until = max(time.monotonic(), self._sent_at + self._words.seconds)

    async def _end_sentence(self, seconds: float) -> None:
        if self._sentence >= 0:
            await self._tell("audio.done", sentence_index=self._sentence, seconds=round(seconds, 3))

    async def _tell(self, kind: str, **content: Any) -> None:
        await self._socket.send_json({"type": kind, **content})


def reply_usage(usage: Usage, sentences: int = 0) -> dict[str, float]:
    """Return the usage in `session.done`."""
    return {
        "characters": usage.characters,
        "frames": usage.frames,
        "seconds": round(usage.seconds, 3),
        "sentences": sentences,
    }
