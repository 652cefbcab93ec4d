"""Limits of concurrent calls; slow requests do not block others."""

import asyncio
import json
from contextlib import suppress

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.support.looping import run
from web.http import gate
from web.http.gate import Gate, GatePolicy
from web.http.hosts import AllowedHosts
from web.http.routes import AllowedRoutes
from web.limits.concurrency import ConcurrencyLimiter, TooManyCalls

BODY = json.dumps({"data": []}).encode()


def test_calls_of_an_address_run_wait_or_are_refused() -> None:
    limiter, inside, most = ConcurrencyLimiter(2, 4), 0, 0

    async def call(address: str) -> bool:
        nonlocal inside, most
        try:
            async with limiter.enter(address):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1
        except TooManyCalls:
            return False
        return True

    async def all_of_them() -> list[bool]:
        return await asyncio.gather(*(call("one") for _ in range(6)), call("other"))

    assert run(all_of_them) == [True] * 4 + [False] * 2 + [True]
    assert most <= 3
    assert limiter._slots == {}, "idle addresses are forgotten"


def test_cancelled_call_frees_its_slot() -> None:
    limiter = ConcurrencyLimiter(1, 1)

    async def cancelled() -> None:
        async def hold() -> None:
            async with limiter.enter("one"):
                await asyncio.Event().wait()

        held = asyncio.create_task(hold())
        await asyncio.sleep(0)
        held.cancel()
        with suppress(asyncio.CancelledError):
            await held
        async with limiter.enter("one"):
            pass

    run(cancelled)


def request(client: str) -> Scope:
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    return {
        "type": "http", "method": "POST", "path": "/gradio_api/run/predict", "query_string": b"", "headers": headers,
        "client": (client, 1), "scheme": "http", "http_version": "1.1", "server": ("localhost", 80),
    }  # fmt: skip


async def status_of(app: Gate, receive: Receive) -> int:
    statuses: list[int] = []

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    await app(request("192.0.2.1"), receive, send)
    return statuses[0]


async def receive_body() -> Message:
    return {"type": "http.request", "body": BODY, "more_body": False}


async def receive_nothing() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_slow_bodies_do_not_block_others_and_are_bounded() -> None:
    app = Gate(answer, GatePolicy(AllowedHosts("127.0.0.1"), AllowedRoutes()))

    async def crowd() -> tuple[int, int]:
        slow = [asyncio.create_task(status_of(app, receive_nothing)) for _ in range(gate.ARRIVING - 1)]
        await asyncio.sleep(0)
        quick = await status_of(app, receive_body)
        slow.append(asyncio.create_task(status_of(app, receive_nothing)))
        await asyncio.sleep(0)
        refused = await status_of(app, receive_body)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return quick, refused

    assert run(crowd) == (200, 429)


def test_slow_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.http.request_body.BODY_SECONDS", 0.01)
    app = Gate(answer, GatePolicy(AllowedHosts("127.0.0.1"), AllowedRoutes()))
    assert run(status_of, app, receive_nothing) == 408
