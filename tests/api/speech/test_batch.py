"""Batches: several speeches in one response."""

import base64
import gc
import json
from contextlib import closing
from http.client import HTTPConnection
from threading import Event, Semaphore
from typing import Any

import httpx
import pytest

from api.speech.batch import BatchRequest
from studio.engines.measured_speech import MeasuredSpeech
from tests.api.conftest import LONG, TEXT, Server, decode_audio, metric, same_sound
from tests.paths import CLIP
from tests.support.waiting import TIMEOUT, until

WORDS = "The train was late, so we walked along the river."


def test_each_batch_item_has_its_own_result(client: httpx.Client) -> None:
    common = {"model": "tts-1", "voice": "Clara", "response_format": "pcm", "seed": 7}
    items = [
        {"input": TEXT, "timestamp_granularities": ["word"]},
        {"input": TEXT, "voice": "Nobody"},
        {"input": ""},
        {"input": "Yes.", "seed": 1},
    ]
    answer = client.post("/v1/audio/speech/batch", json={**common, "items": items}).json()
    assert (answer["total"], answer["succeeded"], answer["failed"]) == (4, 2, 2)
    assert [result["status"] for result in answer["results"]] == ["success", "error", "error", "success"]
    assert [result["index"] for result in answer["results"]] == [0, 1, 2, 3]
    assert answer["results"][1]["error"]["code"] == "voice_not_found"
    assert answer["results"][2]["error"]["param"] == "input"
    alone = client.post("/v1/audio/speech", json={**common, "input": TEXT}).content
    first = answer["results"][0]
    assert same_sound(base64.b64decode(first["audio_data"]), alone)
    assert first["media_type"] == "audio/pcm;rate=24000;channels=1"
    assert first["usage"]["characters"] == len(TEXT)
    assert [word["word"] for word in first["words"]] == TEXT.split()
    assert answer["results"][3]["words"] is None
    assert len(decode_audio(alone, "pcm")[0]) / 24_000 == pytest.approx(first["usage"]["seconds"], abs=0.01)


@pytest.mark.usefixtures("short_turns")
def test_voice_of_an_item_replaces_the_common_clip(client: httpx.Client) -> None:
    """And the clip of an item the common voice."""
    data = base64.b64encode(CLIP.read_bytes()).decode()
    clip = {"ref_audio": f"data:audio/flac;base64,{data}", "ref_text": WORDS}
    common = {"model": "tts-1", "response_format": "pcm", "seed": 7}
    items = [{"input": TEXT, "voice": "Clara"}, {"input": TEXT, "voice": "Nobody"}, {"input": TEXT}]
    answer = client.post("/v1/audio/speech/batch", json={**common, **clip, "items": items}).json()
    assert [result["status"] for result in answer["results"]] == ["success", "error", "success"], answer
    assert answer["results"][1]["error"]["code"] == "voice_not_found"
    of_voice, of_clip = (base64.b64decode(answer["results"][at]["audio_data"]) for at in (0, 2))
    assert same_sound(of_voice, client.post("/v1/audio/speech", json={**common, **items[0]}).content)
    assert same_sound(of_clip, client.post("/v1/audio/speech", json={**common, **clip, "input": TEXT}).content)
    items = [{"input": TEXT, **clip}]
    answer = client.post("/v1/audio/speech/batch", json={**common, "voice": "Clara", "items": items}).json()
    assert same_sound(base64.b64decode(answer["results"][0]["audio_data"]), of_clip)


def test_batch_size_is_bounded(client: httpx.Client) -> None:
    for items in ([], [{"input": "Hi."}] * 33, "Hi."):
        assert client.post("/v1/audio/speech/batch", json={"items": items}).status_code == 400
    assert len(BatchRequest(items=[{"input": "Hi."}] * 32).items) == 32


def test_disconnected_client_frees_all_slots(
    server: Server, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The texts would take minutes; queued items are never begun."""
    items = [{"input": LONG, "voice": "Clara"}] * 8
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/audio/speech/batch", json={"items": items}, timeout=httpx.Timeout(30, read=0.5))
    until(lambda: server.busy() == 0)
    until(lambda: 'operation="create_batch",status="499"' in client.get("/metrics").text)
    gc.collect()  # asyncio logs an exception that nothing has retrieved when its future is deleted
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_speeches_that_begin_after_their_client_has_left_are_counted(
    server: Server, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ended."""
    starting, may_start, start = Semaphore(0), Event(), server.app.engine.speak

    def slow_start(*given: Any, **options: Any) -> MeasuredSpeech:
        starting.release()
        assert may_start.wait(TIMEOUT)
        return start(*given, **options)

    def left() -> list[str]:
        lines = client.get("/metrics").text.splitlines()
        return [line for line in lines if 'requests_total{operation="create_batch",status="499"' in line]

    monkeypatch.setattr(server.app.engine, "speak", slow_start)
    cancelled, before = metric("cancelled", client, "api"), left()
    with closing(HTTPConnection(server.url.removeprefix("http://"))) as leaving:
        items = [{"input": LONG, "voice": "Clara"}] * 2
        headers = {"Content-Type": "application/json"}
        leaving.request("POST", "/v1/audio/speech/batch", json.dumps({"items": items}), headers)
        assert all(starting.acquire(timeout=TIMEOUT) for _ in items)
    until(lambda: left() != before)
    may_start.set()
    until(lambda: metric("cancelled", client, "api") == cancelled + len(items))
    until(lambda: server.busy() == 0)
