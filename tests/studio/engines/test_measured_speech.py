"""The progress of a speech, as the speed estimator sees it."""

from collections.abc import Iterator

import numpy as np
import pytest

from engine.outputs import AudioChunk
from studio.engines.measured_speech import MeasuredSpeech
from studio.engines.speech_metrics import SpeechMetrics
from studio.speed import SpeedEstimator
from tests.support.clock import Clock

RATE = 10
QUEUED = 5.0


def chunk(start: int, length: int, frames: int, queued: float = QUEUED) -> AudioChunk:
    return AudioChunk(np.zeros(length, np.float32), start, frames, 0.0, 0, 1, "word", queued=queued)


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(0, RATE, 1)],
        [chunk(0, RATE // 2, 0, 0.0), chunk(RATE // 2, RATE // 2, 1)],  # a pause, told before the wait is known
        [chunk(0, RATE, 1), chunk(0, 0, 0), chunk(0, RATE, 1)],  # audio that is withdrawn
    ],
)
def test_wait_for_a_slot_does_not_count_as_time_to_speak(chunks: list[AudioChunk]) -> None:
    clock = Clock()
    speed = SpeedEstimator(clock)
    source: Iterator[AudioChunk] = iter(chunks)
    speech = MeasuredSpeech(source, speed, SpeechMetrics(), 5, RATE, lambda: None)  # type: ignore[arg-type]
    clock.now += QUEUED + 2
    list(speech)
    assert speed.real_time_factor == 2
