"""Room for calls, and that slow ones do not take it from others."""

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


def test_some_at_once_some_more_that_wait_and_no_more() -> None:
    lanes, inside, most = ConcurrencyLimiter(2, 4), 0, 0

    async def call(address: str) -> bool:
        nonlocal inside, most
        try:
            async with lanes.enter(address):
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
    assert lanes._lanes == {}, "nothing is kept of addresses that are gone"


def test_a_call_that_is_cancelled_gives_its_place_back() -> None:
    lanes = ConcurrencyLimiter(1, 1)

    async def cancelled() -> None:
        async def hold() -> None:
            async with lanes.enter("one"):
                await asyncio.Event().wait()

        held = asyncio.create_task(hold())
        await asyncio.sleep(0)
        held.cancel()
        with suppress(asyncio.CancelledError):
            await held
        async with lanes.enter("one"):
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


async def whole() -> Message:
    return {"type": "http.request", "body": BODY, "more_body": False}


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_bodies_that_do_not_arrive_hold_up_nobody_and_are_not_many() -> None:
    app = Gate(answer, GatePolicy(AllowedHosts("127.0.0.1"), AllowedRoutes()))

    async def crowd() -> tuple[int, int]:
        slow = [asyncio.create_task(status_of(app, never)) for _ in range(gate.ARRIVING - 1)]
        await asyncio.sleep(0)
        quick = await status_of(app, whole)
        slow.append(asyncio.create_task(status_of(app, never)))
        await asyncio.sleep(0)
        refused = await status_of(app, whole)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return quick, refused

    assert run(crowd) == (200, 429)


def test_a_body_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.http.request_body.BODY_SECONDS", 0.01)
    app = Gate(answer, GatePolicy(AllowedHosts("127.0.0.1"), AllowedRoutes()))
    assert run(status_of, app, never) == 408
