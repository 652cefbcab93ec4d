"""Fish Audio's `/v1/tts/live`: a WebSocket that speaks a text while it is being written.

The client sends MessagePack:

    start   request: as for `POST /v1/tts`; its text, which may be empty, comes first
    text    text: a piece, which may begin and end within a word
    flush   the text so far is spoken, even if its last sentence is not complete
    stop    the text is complete

The server sends MessagePack:

    audio   audio: encoded bytes
    finish  reason: stop, or error with a message; then the connection ends
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal

import msgpack
from fastapi import APIRouter
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from api.access import caller_of
from api.context import ApiContext, context_of
from api.errors import detail_of, invalid_detail
from api.fish import FishRequest, open_fish_stream, read_msgpack
from api.speech.delivery import counted
from api.speech.live import IDLE_SECONDS
from api.speech.stream import EncodedSpeech
from api.speech.text_feed import TextFeed
from engine.errors import InvalidInput
from engine.text import GrowingText
from studio.speech_service import MAX_CHARACTERS

router = APIRouter()


class LiveRequest(FishRequest):
    """How to speak a text that follows in pieces."""

    text: str = Field("", max_length=MAX_CHARACTERS)


class Start(BaseModel):
    """The first event."""

    event: Literal["start"]
    request: LiveRequest


class Piece(BaseModel):
    """A piece of the text."""

    event: Literal["text"]
    text: str = Field(max_length=MAX_CHARACTERS)


class Mark(BaseModel):
    """A mark after the text so far."""

    event: Literal["flush", "stop"]


Event = Start | Piece | Mark
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


@router.websocket("/v1/tts/live")
async def fish_live(socket: WebSocket) -> None:
    """Speak one text while it is being written."""
    await socket.accept()
    with suppress(WebSocketDisconnect):
        try:
            await _speak(socket)
        except WebSocketDisconnect:
            raise
        except Exception as error:
            await _send(socket, event="finish", reason="error", message=_message(error))
        else:
            await _send(socket, event="finish", reason="stop")
        await socket.close()


async def _speak(socket: WebSocket) -> None:
    """Speak a text to its end. Raises WebSocketDisconnect, and the error that ends the session."""
    context, caller = context_of(socket), caller_of(socket)
    start = await _next_in_time(socket)
    if not isinstance(start, Start):
        raise InvalidInput("The first event is “start”, with a request.")
    text = await context.jobs.speeches.run(caller, context.app.engine.growing_text)  # may load the model
    stream = await open_fish_stream(context, caller, start.request, text)
    feed = TextFeed(context.speech, caller, text)
    tasks = [
        asyncio.create_task(_read(socket, start.request.text, text, feed, stream)),
        asyncio.create_task(_send_audio(socket, context, stream)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        feed.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(socket: WebSocket, first: str, text: GrowingText, feed: TextFeed, stream: EncodedSpeech) -> None:
    """Append the pieces to the text, and wait for the end of the connection. first: the first piece.

    Raises WebSocketDisconnect, TimeoutError, and what `TextFeed.append` raises.
    """
    event: Event = Piece(event="text", text=first)
    while True:
        match event:
            case Piece():
                await feed.append(event.text)
                stream.usage.characters = len(text)
            case Mark(event="flush"):
                text.end_line()
            case Mark():
                feed.finish()
                break
            case Start():
                raise InvalidInput("The text has begun already: open another connection for the next one.")
        event = await _next_in_time(socket)
    while True:
        await _next_event(socket)


async def _send_audio(socket: WebSocket, context: ApiContext, stream: EncodedSpeech) -> None:
    async with aclosing(counted(context, stream, aiter(stream))) as parts:
        async for data in parts:
            await _send(socket, event="audio", audio=data)


async def _next_in_time(socket: WebSocket) -> Event:
    """As `_next_event`. Raises TimeoutError, too, if the client sends nothing."""
    async with asyncio.timeout(IDLE_SECONDS):
        return await _next_event(socket)


async def _next_event(socket: WebSocket) -> Event:
    """Return the client's next event. Raises WebSocketDisconnect, InvalidInput, ValidationError."""
    try:
        data = await socket.receive_bytes()
    except KeyError as error:
        raise InvalidInput("Events are binary messages.") from error
    try:
        content = read_msgpack(data)
    except Exception as error:  # MessagePack's errors have no common class
        raise InvalidInput("The message is not MessagePack.") from error
    return _EVENT.validate_python(content)


async def _send(socket: WebSocket, **event: Any) -> None:
    await socket.send_bytes(msgpack.packb(event))


def _message(error: Exception) -> str:
    """Describe the error that ends a session."""
    if isinstance(error, TimeoutError):
        return "The session was idle."
    detail = invalid_detail(error.errors()) if isinstance(error, ValidationError) else detail_of(error)
    return detail.message
