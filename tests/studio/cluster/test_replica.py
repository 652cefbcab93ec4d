"""A replica's speech, without a cluster."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from engine.engine import Engine
from engine.errors import EngineClosed
from engine.options import SpeakOptions
from studio.cluster.messages import SpeakRequest
from studio.cluster.replica import EngineReplica
from tests.paths import MINIATURE
from tests.support.looping import run
from tests.support.waiting import until


@pytest.fixture
def replica(bundled_engine: Engine) -> Iterator[EngineReplica]:
    made = object.__new__(EngineReplica)  # its constructor needs Ray
    metrics = {name: Mock() for name in ("_speeches", "_continued", "_seconds", "_reused", "_first")}
    with ThreadPoolExecutor(2) as threads:
        vars(made).update(metrics, _engine=bundled_engine, _threads=threads, _voices=OrderedDict(), _queued={})
        yield made
    vars(made).clear()  # it closes its engine


def test_cancelled_call_frees_its_place(replica: EngineReplica, bundled_engine: Engine) -> None:
    """While a thread waits for the next chunk."""

    async def speak() -> None:
        async for _ in replica.speak(
            SpeakRequest("The rain has stopped. We can go now.", (), SpeakOptions(seed=1), "")
        ):
            pass

    async def cancel() -> None:
        call = asyncio.ensure_future(speak())
        while not bundled_engine.status().speaking:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(cancel)
    until(lambda: not bundled_engine._pipeline.loop.scheduler.open_tickets())
    assert not replica._queued


def test_replica_whose_engine_has_stopped_is_unhealthy() -> None:
    """Its requests end with EngineClosed, which is no failed step, so that Serve would never replace it."""
    made = object.__new__(EngineReplica)
    with Engine.load(MINIATURE, "cpu", graphs="off", slots=1) as engine:
        vars(made).update(_engine=engine, _failed=False, _queued={}, _slots_used=Mock(), _waiting=Mock())
        made.check_health()
        engine._pipeline.codec_worker.close()
        with pytest.raises(EngineClosed):
            made.check_health()
    vars(made).clear()
