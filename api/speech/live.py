"""`/v1/audio/speech/stream`: a WebSocket that speaks text while it is being written, and can be interrupted.

The client sends JSON:

    session.config   voice, response_format, speed, seed, instructions, language, sample_rate, model, ref_audio,
                     ref_text, timestamp_granularities: as for `POST /v1/audio/speech`; before the first text, and
                     again between two replies, with the fields that change
    input.text       text: a piece of a reply, as a language model writes it
    input.done       the reply is complete
    input.interrupt  the listener has interrupted; seconds: how much of the reply's audio was played (default: the time
                     since the first audio was sent)
    session.close    the last message

The server sends audio as binary messages, and JSON:

    session.created  the voice and the format
    audio.start      a sentence begins: sentence_index, sentence_text, format, sample_rate, seconds (of audio before it)
    audio.words      words, if requested by timestamp_granularities: word, start, end (seconds)
    audio.done       the sentence has ended: sentence_index, seconds
    session.done     the reply has ended: its usage; the next one may begin
    interrupted      the reply ends here: its heard and unheard words; seconds
    error            an error; if it ends a reply, the rest of its text is ignored, and session.done follows input.done

A reply whose voice or settings were refused is not spoken with others: after an error of session.config, replies are
refused until a session.config succeeds. A reply that has begun goes on.

Each reply is admitted like a request: once the caller's key is revoked or has expired, replies are refused.

The model speaks a reply as one conversation, cut at sentences and clauses: later text continues in the voice and tone
of the speech so far.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from api.access import MAX_VALUES, caller_of, values_in
from api.context import ApiContext, context_of
from api.errors import ErrorDetail, detail_of, invalid_detail
from api.speech.create import begin_speech, clip_of
from api.speech.reply import Reply, reply_usage
from api.speech.request import AudioFormat, SpeechRequest, with_changes, without_nulls
from api.speech.text_feed import TextFeed
from engine.errors import InvalidInput
from studio.access import Caller
from studio.engines.speech_metrics import Usage
from studio.speech_service import MAX_CHARACTERS
from studio.words.playback_position import PlayedWords

IDLE_SECONDS = 300.0  # without a client message, after all sent audio has been played

router = APIRouter()


class SessionConfig(SpeechRequest):
    """Speech settings of the replies."""

    type: Literal["session.config"]
    input: str = ""
    response_format: AudioFormat = "pcm"


class InputText(BaseModel):
    """A piece of a reply."""

    type: Literal["input.text"]
    text: str = Field(max_length=MAX_CHARACTERS)


class Interrupt(BaseModel):
    """An interruption by the listener. seconds: how much of the reply's audio was played."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["input.interrupt"]
    seconds: float | None = Field(None, ge=0, allow_inf_nan=False)


class LiveError(InvalidInput):
    """A message that does not fit the session."""


@router.websocket("/v1/audio/speech/stream")
async def speak_live(socket: WebSocket) -> None:
    """Speak replies while they are being written."""
    await socket.accept()
    session = LiveSession(socket, context_of(socket), caller_of(socket))
    code, reason = 1000, ""
    with suppress(WebSocketDisconnect):
        try:
            while await session.handle(await _message(socket, session)):
                pass
        except TimeoutError:
            code, reason = 1001, "The session was idle."
        finally:  # first, since closing may wait for the client
            await session.end()
        await socket.close(code, reason)


async def _message(socket: WebSocket, session: LiveSession) -> Any:
    """Return the client's next message; None if it is not JSON. Raises WebSocketDisconnect, TimeoutError."""
    if socket.application_state is not WebSocketState.CONNECTED:  # an answer could not be sent
        raise WebSocketDisconnect(1006)
    receiving, last = asyncio.create_task(_receive_json(socket)), time.monotonic()
    try:
        while True:
            left = max(last, session.heard_until) + IDLE_SECONDS - time.monotonic()
            if left <= 0:
                raise TimeoutError
            await asyncio.wait([receiving], timeout=left)
            if receiving.done():
                return receiving.result()
    except (ValueError, KeyError, RecursionError):  # the last one is of JSON that is nested too deeply
        return None
    finally:
        receiving.cancel()


async def _receive_json(socket: WebSocket) -> Any:
    """Raises WebSocketDisconnect, ValueError for too many values or no JSON, KeyError for a binary message."""
    text = await socket.receive_text()
    if values_in(text) > MAX_VALUES:
        raise ValueError
    return json.loads(text)


class LiveSession:
    """One connection, with one reply after another."""

    def __init__(self, socket: WebSocket, context: ApiContext, caller: Caller) -> None:
        self._socket, self._context, self._caller = socket, context, caller
        self._fields: dict[str, Any] = {"type": "session.config", "voice": "alloy"}  # the current configuration
        self._config = SessionConfig.model_validate(self._fields)
        self._clip: bytes | None = None
        self._reply: Reply | None = None
        self._feed: TextFeed | None = None  # of the reply; None once it is complete
        self._refused = False  # whether a piece of the text being written was refused
        self._misconfigured = False  # whether the last configuration was refused

    @property
    def heard_until(self) -> float:
        """Time (`time.monotonic`) when the sent audio will have been played; in the past if there is none.

        Now while a reply waits for the engine.
        """
        if self._reply is None:
            return 0.0
        return max(self._reply.heard_until, time.monotonic() if self._reply.is_due else 0.0)

    async def handle(self, message: Any) -> bool:
        """Handle a message. Return False after the last one."""
        kind = message.get("type") if isinstance(message, dict) else None
        try:
            match kind:
                case "session.config":
                    await self._configure(without_nulls(message))
                case "input.text":
                    await self._write(message)
                case "input.done":
                    await self._complete()
                case "input.interrupt":
                    await self._interrupt(Interrupt.model_validate(message).seconds)
                case "session.close":
                    return False
                case _:
                    raise LiveError("Messages are JSON objects whose type is one of those of this session.")
        except ValidationError as error:
            await self._tell_error(invalid_detail(error.errors()))
        except Exception as error:
            await self._tell_error(detail_of(error))
        return True

    async def end(self) -> None:
        """End the reply in progress."""
        self._refused = False
        self._close_feed()
        if self._reply is not None:
            await self._reply.stop()
            self._reply = None

    async def _configure(self, changes: dict[str, Any]) -> None:
        """Change the configuration. When that is refused, the next reply is not spoken with the current one."""
        self._misconfigured = True
        await self._change(changes)
        self._misconfigured = False

    async def _change(self, changes: dict[str, Any]) -> None:
        if self._speaking:
            raise LiveError("The reply has begun: configure the session before it, or interrupt it.")
        fields = with_changes(self._fields, changes)
        config = SessionConfig.model_validate(fields)
        if config.lufs is not None:
            raise LiveError("lufs is not available in a live session.")
        self._context.check_model(config.model)
        clip = await clip_of(self._context, config)
        if config.voice is not None and clip is None:
            await run_in_threadpool(self._context.speech.find_voice, self._caller, config.voice)
        if self._ignoring:
            await self.end()
        self._fields, self._config, self._clip = fields, config, clip
        await self._socket.send_json(
            {"type": "session.created", "voice": config.voice, "format": config.response_format}
        )

    async def _write(self, message: Any) -> None:
        """Speak a piece. When one is refused, the rest of its reply is not spoken without it."""
        if self._ignoring:
            return
        try:
            text = InputText.model_validate(message).text
            if not self._speaking:
                if self._misconfigured:
                    raise LiveError("The last session.config was refused: send one that succeeds before the next text.")
                await self.end()
                self._reply = await self._begin()
                self._feed = TextFeed(self._context.speech, self._caller, self._reply.text)
            elif self._feed is None:
                raise LiveError("The reply is complete: wait for session.done before the next one, or interrupt it.")
            assert self._feed is not None
            await self._feed.append(text)
        except Exception:
            self._refused = True
            if self._feed is not None and self._reply is not None:
                self._close_feed()
                await self._reply.stop()
            raise

    async def _complete(self) -> None:
        """Speak the rest of the reply. `session.done` follows in any case: a client may wait for nothing else."""
        self._refused = False
        if self._speaking:
            if self._feed is None or self._reply is None:
                raise LiveError("There is no reply to complete: send input.text first.")
            self._reply.complete()
            self._feed.finish()
            self._feed = None
        elif self._reply is not None and not self._reply.ended:
            self._close_feed()
            await self._reply.finish()
        elif self._feed is not None:  # it has reached its maximum length
            self._close_feed()
        else:
            await self._socket.send_json({"type": "session.done", "usage": reply_usage(Usage(0))})

    async def _interrupt(self, seconds: float | None) -> None:
        self._refused = False
        if self._reply is None:
            raise LiveError("There is no reply to interrupt.")
        reply, self._reply = self._reply, None
        await self.end()
        await reply.interrupt(seconds)

    async def _begin(self) -> Reply:
        self._caller = await run_in_threadpool(self._context.access.admit_again, self._caller)
        config, engine = self._config, self._context.app.engine
        text = await self._context.jobs.speeches.run(self._caller, engine.growing_text)  # may load the model
        known = engine.info.capabilities.word_times  # otherwise the heard words are estimated
        stream = await begin_speech(self._context, self._caller, config, self._clip, text=text, word_times=known)
        words = PlayedWords(engine.info.sample_rate, config.speed)
        tells = bool(config.timestamp_granularities)
        return Reply(self._socket, text, stream, words, engine.metrics, tells_words=tells)

    def _close_feed(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    @property
    def _speaking(self) -> bool:
        return self._reply is not None and not self._reply.over

    @property
    def _ignoring(self) -> bool:
        """Whether the reply has ended before its text, whose rest is ignored up to `input.done`."""
        return self._refused or (self._feed is not None and not self._speaking)

    async def _tell_error(self, detail: ErrorDetail) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):
            await self._socket.send_json({"type": "error", "error": detail.model_dump()})
