"""More concurrent clients than places, half of which disconnect."""

import asyncio
import ctypes
import gc
import threading

import httpx
import pytest

from api.speech.stream import EncodedSpeech
from tests.api.conftest import Server
from tests.support.looping import run
from tests.support.waiting import until

PLACES = 8  # slots and places in the queue
CLIENTS = 3 * PLACES


class MallocInfo(ctypes.Structure):
    """`struct mallinfo2`. uordblks, hblkhd: bytes in use, in the heaps and in mappings of their own."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


async def request_speech(client: httpx.AsyncClient, number: int) -> int:
    """Return the status of a client's speech, or 0 if the client disconnects, before or after the headers."""
    asked = {"model": "tts-1", "input": "Yes, of course.", "voice": "Clara", "max_new_tokens": 4}
    if number % 2:
        asked["input"] = "The rain has stopped at last. " * 20
        asked["max_new_tokens"] = 10_000
    try:
        async with client.stream("POST", "/v1/audio/speech", json=asked) as response:
            async for _ in response.aiter_raw():
                if number % 2:
                    return 0
            return response.status_code
    except httpx.ReadTimeout:
        assert number % 2, "only disconnecting clients have a short timeout"
        return 0


async def run_clients(url: str, clients: int) -> list[int]:
    limits = httpx.Limits(max_connections=None)
    patient, impatient = httpx.Timeout(240), httpx.Timeout(240, read=1.0)
    async with (
        httpx.AsyncClient(base_url=url, limits=limits, timeout=patient) as staying,
        httpx.AsyncClient(base_url=url, limits=limits, timeout=impatient) as leaving,
    ):
        return await asyncio.gather(
            *(request_speech(leaving if number % 2 else staying, number) for number in range(clients))
        )


def memory(server: Server) -> float:
    """Return the memory that the process has allocated and not freed, in bytes; where it cannot be told, the resident
    memory, which also depends on how many clients were served at a time."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallinfo2"):  # glibc
        libc.mallinfo2.restype = MallocInfo
        info = libc.mallinfo2()
        return float(info.uordblks + info.hblkhd)
    text = httpx.get(f"{server.url}/metrics").text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("process_resident_memory"))


def count_streams() -> int:
    gc.collect()
    return sum(type(each) is EncodedSpeech for each in gc.get_objects())


def test_all_slots_are_freed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients beyond the queue get 503, no client waits for ever, and disconnected clients leave nothing."""
    monkeypatch.setattr(server.engine._pipeline.loop.scheduler, "_limit", PLACES)
    run(run_clients, server.url, PLACES)  # uses all slots and queue places once
    until(lambda: server.busy() == 0)
    before = memory(server)
    statuses = run(run_clients, server.url, CLIENTS)
    until(lambda: server.busy() == 0)
    assert len(statuses) == CLIENTS
    assert set(statuses) <= {0, 200, 503}
    assert statuses.count(200) >= server.engine.info.slots
    until(lambda: not any(thread.name == "reprise-api-speech" for thread in threading.enumerate()))
    until(lambda: count_streams() == 0)
    assert memory(server) - before < 8 << 20
