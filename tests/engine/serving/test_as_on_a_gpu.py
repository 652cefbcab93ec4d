"""A whole engine on a CPU as on a GPU: static shapes, graphs, and a step that runs beside the host."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from engine import Engine, SpeakOptions
from engine import engine as engine_module
from engine.serving import batch_decoder
from engine.serving.runner import model_runner, prefill_graphs
from engine.serving.runner.model_runner import ModelRunner, PendingFrames
from storage.voices.sample_voices import read_sample_voices
from tests.engine.serving.graph_capture import FakeGraphCapture

TEXTS = ("Yes. No.", "One. Two.", "No.")
CANCELLED_AFTER = (None, 2, None)  # chunks


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "_graph_capture", lambda *_: FakeGraphCapture())
        patch.setattr(engine_module, "POSITIONS", 512)  # of a slot; static shapes compute all
        patch.setattr(batch_decoder, "GRAPH_FRAMES", (4, 1))
        patch.setattr(prefill_graphs, "SIZES", (32, 256))
        patch.setattr(ModelRunner, "is_asynchronous", property(lambda _: True))
        # The next step overwrites the result of a graph, which is copied on a GPU.
        patch.setattr(model_runner, "PendingFrames", lambda result, rows: PendingFrames(result.clone(), rows))
        with closing(Engine.load("bundled", "cpu", slots=2)) as loaded:
            yield loaded


def speak(engine: Engine, number: int, cancelled_after: int | None = None) -> list[np.ndarray]:
    """Speak a text, or its beginning. Returns the codes of each whole segment."""
    speech = engine.speak(
        TEXTS[number], read_sample_voices()[number].voice, SpeakOptions(seed=number), owner=str(number)
    )
    for count, _ in enumerate(speech, start=1):
        if count == cancelled_after:
            speech.cancel()
    assert speech.result is not None
    assert speech.result.stop_reason == ("cancelled" if cancelled_after else "end")
    return [segment.codes for segment in speech.spoken]


def test_requests_of_several_segments_finish_beside_cancelled_ones(engine: Engine) -> None:
    alone = [speak(engine, number) for number in range(len(TEXTS))]
    assert list(map(len, alone)) == [2, 2, 1]
    with ThreadPoolExecutor() as readers:
        together = list(readers.map(lambda number: speak(engine, number, CANCELLED_AFTER[number]), range(len(TEXTS))))
    for one, other, cancelled in zip(alone, together, CANCELLED_AFTER, strict=True):
        assert len(one) == len(other) or cancelled
        for expected, codes in zip(one[: len(other)], other, strict=True):  # a cancelled one has fewer segments
            np.testing.assert_array_equal(codes, expected)
    assert len(engine._pipeline.loop.scheduler.open_tickets()) == 0
