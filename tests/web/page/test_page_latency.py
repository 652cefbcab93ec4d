"""The page latency benchmark: its stream, its table, and one short run of each method."""

import shutil
import time

import numpy as np
import pytest
from playwright.sync_api import Browser

from benchmarks.speed import page_latency
from web.folders import private_folder
from web.launch import launch

RATE = 22_050


def test_stream_is_complete_and_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_latency, "PACE", 0.2)
    samples = np.arange(RATE // 2, dtype=np.int16)
    began = time.perf_counter()
    chunks = list(page_latency.stream(samples, RATE, 0.2))
    assert np.array_equal(np.concatenate(chunks), samples)
    assert [len(chunk) for chunk in chunks] == [4410, 4410, 2205]
    assert time.perf_counter() - began >= 0.1, "no chunk arrives before it is produced"


def test_table_reports_the_lead_of_the_player() -> None:
    runs = {
        "player": [{"first": 0.2, "waits": 0}, {"first": 0.3, "waits": 1}],
        "streamed": [{"first": 1.0, "waits": 0}],
    }
    rows = [page_latency.figures(0.2, way, runs[way]) for way in page_latency.WAYS]
    found = {"browser": "Chromium 1", "seconds": 4.0, "pace": 0.5, "rows": rows}
    ours, theirs, ahead = page_latency.table(found).rows
    assert ours == ["200 ms, Reprise's player", "250 ms (300)", "0.5 (1)"]
    assert theirs[1] == "1000 ms (1000)"
    assert ahead[:2] == ["200 ms, ahead by", "750 ms"]


def test_both_methods_play_sound(chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("ffmpeg"):
        pytest.skip("ffmpeg is not installed: Gradio's own streaming needs it (Debian: apt-get install ffmpeg)")
    monkeypatch.setattr(page_latency, "SECONDS", 0.5)
    times = np.arange(RATE) / RATE
    samples = (8_000 * np.sin(2 * np.pi * 220 * times)).astype(np.int16)
    with private_folder():
        demo = page_latency.page(samples, RATE)
        url = launch(demo, policy=page_latency.ANYTHING)
        for way in page_latency.WAYS:
            heard = page_latency.listen(chromium, url, way, 0.25)
            assert heard["first"] >= 0.1, f"{way}: no sound plays before the first chunk is produced"
        demo.close(verbose=False)
