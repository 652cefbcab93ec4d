"""MCP tools with the client of the `mcp` package, over HTTP and over standard input and output."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest

from engine import __version__
from tests.api.conftest import TEXT, Server, bearer, decode_audio
from tests.api.voices import delete_voices
from tests.paths import CLIP, ROOT
from tests.support.looping import run
from tests.support.waiting import until

if TYPE_CHECKING:  # importing it takes half a second, which each worker would spend
    from mcp import Client
    from mcp.types import CallToolResult

SAMPLES = ["Adam", "Ben", "Clara", "Daniel", "Emma", "Flora"]
WORDS = "The train was late, so we walked along the river."
CLIP_URL = f"data:audio/flac;base64,{base64.b64encode(CLIP.read_bytes()).decode()}"
MODES = ("auto", "legacy")


def with_client(server: Server, visit: Callable[[Client], Awaitable[None]], mode: str = "auto", key: str = "") -> None:
    """Run `visit` with a client over HTTP. mode: the handshake, which depends on the client's version."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def meet() -> None:
        async with (
            httpx2.AsyncClient(headers=bearer(key) if key else {}, timeout=120) as http,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
        ):
            await visit(client)

    run(meet)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


def voice_names(result: CallToolResult) -> list[str]:
    assert not result.is_error, result
    assert result.structured_content
    return [voice["name"] for voice in result.structured_content["result"]]


def audio_of(result: CallToolResult) -> tuple[bytes, str]:
    """Return the audio of a result and its description."""
    assert not result.is_error, result
    audio, text = result.content
    assert audio.type == "audio"
    assert text.type == "text"
    assert audio.mime_type == "audio/mpeg"
    return base64.b64decode(audio.data), text.text


async def error_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("mode", MODES)
def test_client_lists_tools_and_speaks(server: Server, mode: str) -> None:
    async def visit(client: Client) -> None:
        assert client.server_info is not None
        assert (client.server_info.title, client.server_info.version) == ("Reprise", __version__)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"speak", "list_voices", "clone_voice"}
        assert set(tools["clone_voice"].input_schema["required"]) == {"name", "clip", "consent"}
        assert "call" not in tools["speak"].input_schema["properties"]
        assert voice_names(await client.call_tool("list_voices", {})) == SAMPLES
        data, text = audio_of(await client.call_tool("speak", {"text": TEXT, "voice": "Clara", "seed": 7}))
        samples, rate = decode_audio(data, "mp3")
        assert 0.3 < len(samples) / rate < 5
        assert b"Info" in data or b"Xing" in data, "as a whole file, with its length"
        assert "in the voice “Clara”, seed 7" in text
        assert "no voice called “Nobody”" in await error_of(client, "speak", text=TEXT, voice="Nobody")
        assert "voice: String should have at least 1 character." in await error_of(client, "speak", text=TEXT, voice="")
        assert "speed" in await error_of(client, "speak", text=TEXT, speed=9)
        assert "There are no words to say" in await error_of(client, "speak", text="👍", voice="Clara")

    with_client(server, visit, mode)


@pytest.mark.usefixtures("short_turns")
def test_voice_is_cloned_with_consent(server: Server) -> None:
    async def visit(client: Client) -> None:
        asked = {"name": "Anna", "clip": CLIP_URL, "transcript": "The train.", "consent": "Anna Gray"}
        made = await client.call_tool("clone_voice", asked)
        assert not made.is_error, made
        assert made.structured_content
        assert "too few words" in " ".join(made.structured_content["notes"])
        kept = server.storage.voices.get(made.structured_content["id"], owner="user:ann")
        assert kept.consent
        assert (kept.name, kept.consent.who) == ("Anna", "Anna Gray")
        audio_of(await client.call_tool("speak", {"text": "Hello.", "voice": "Anna"}))
        assert voice_names(await client.call_tool("list_voices", {})) == ["Anna", *SAMPLES]
        for changed, says in (
            ({}, "already a voice called “Anna”"),
            ({"name": "Ben", "consent": " "}, "only when its speaker has agreed"),
            ({"name": "Ben", "clip": str(CLIP)}, "clip: send the clip as a data URL"),
            ({"name": "Ben", "clip": "data:,%"}, "clip: the data URL does not hold base64"),
            ({"name": "Ben", "clip": "data:,aaaa"}, "not audio that can be read"),
        ):
            assert says in await error_of(client, "clone_voice", **{**asked, **changed})

    with server.key() as key:
        with_client(server, visit, key=key)
    delete_voices(server.storage.voices, "user:ann")


def test_http_needs_an_api_key(server: Server, client: httpx.Client) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accepts = {"Accept": "application/json, text/event-stream"}
    assert client.post("/mcp", json=ping, headers=accepts).status_code == 200
    assert client.post("/mcp", json=ping, headers={**accepts, "Origin": "https://evil.example"}).status_code == 401
    assert client.post("/mcp", content=b"x" * (33 << 20), headers=accepts).status_code == 413
    assert client.get("/mcp", headers=accepts).status_code == 405
    with server.key() as key:
        assert client.post("/mcp", json=ping, headers=accepts).status_code == 401
        assert client.post("/mcp", json=ping, headers={**accepts, **bearer(key)}).status_code == 200


@pytest.mark.parametrize("mode", MODES)
def test_cancelled_call_frees_its_slot(server: Server, mode: str) -> None:
    async def visit(client: Client) -> None:
        speaking = asyncio.create_task(client.call_tool("speak", {"text": f"{TEXT} " * 400, "voice": "Clara"}))
        await asyncio.to_thread(until, server.busy)
        speaking.cancel()
        await asyncio.wait([speaking])

    with_client(server, visit, mode)
    until(lambda: not server.busy())


def test_server_over_standard_input_and_output(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters

    async def meet() -> None:
        pid, serve = tmp_path / "pid", ["app.py", "--graphs", "off", "mcp", "--database", str(tmp_path / "voices.db")]
        command = StdioServerParameters(
            command="sh", args=["-c", 'echo $$ > "$0"; exec "$@"', str(pid), sys.executable, *serve], cwd=ROOT
        )
        async with Client(command) as client:
            asked = {"name": "Anna", "clip": str(CLIP), "transcript": WORDS, "consent": "Anna Gray"}
            missing = await error_of(client, "clone_voice", **{**asked, "clip": "~nobodyhere/x.wav"})
            assert "x.wav" in missing
            made = await client.call_tool("clone_voice", asked)
            assert not made.is_error, made
            assert voice_names(await client.call_tool("list_voices", {})) == ["Anna", *SAMPLES]
            data, _ = audio_of(await client.call_tool("speak", {"text": "Hello.", "voice": "Anna"}))
            assert len(decode_audio(data, "mp3")[0])
            process = int(pid.read_text())
            os.kill(process, signal.SIGINT)  # the client keeps standard input open
            await asyncio.to_thread(until, lambda: not _is_running(process))

    run(meet)


def _is_running(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False
