"""Audio that has arrived from another process is counted once."""

import numpy as np

from engine.outputs import AudioChunk
from studio.engines.arrived_audio import ArrivedAudio


def chunk(start: int, length: int, frames: int, segment: int) -> AudioChunk:
    return AudioChunk(np.zeros(length, np.float32), start, frames, 0.0, segment, 2, "word")


def test_frames_of_a_retried_segment_count_once() -> None:
    arrived = ArrivedAudio()
    assert (arrived.end, arrived.frames.total(), arrived.first_audio) == (0, 0, None)
    arrived.add(chunk(0, 400, 4, 0))
    first = arrived.first_audio
    assert first is not None
    assert arrived.add(chunk(400, 0, 0, 0))  # its words
    for start in (400, 800):
        arrived.add(chunk(start, 400, 4, 1))
    assert (arrived.end, dict(arrived.frames)) == (1200, {0: 4, 1: 8})
    arrived.add(chunk(400, 200, 2, 1))  # the second segment again
    assert (arrived.end, dict(arrived.frames)) == (600, {0: 4, 1: 2})
    assert arrived.first_audio == first <= arrived.elapsed
    assert arrived.add(chunk(400, 0, 0, 1))  # its second attempt has no audio
    assert (arrived.end, dict(arrived.frames)) == (400, {0: 4, 1: 0})


def test_pauses_that_have_arrived_are_not_counted_again() -> None:
    arrived = ArrivedAudio()
    assert arrived.add(chunk(0, 400, 4, 0))
    assert arrived.add(chunk(400, 100, 0, 0))  # a pause in two chunks
    assert not arrived.add(chunk(400, 100, 0, 0))  # the speech continues after its first segment
    assert arrived.add(chunk(500, 50, 0, 0))
    assert arrived.add(chunk(550, 200, 2, 1))
    assert not arrived.add(chunk(400, 100, 0, 0))  # and again, after half of its second segment
    assert not arrived.add(chunk(500, 50, 0, 0))
    assert (arrived.end, dict(arrived.frames)) == (750, {0: 4, 1: 2})
    assert arrived.add(chunk(550, 400, 4, 1))
    assert (arrived.end, dict(arrived.frames)) == (950, {0: 4, 1: 4})


def test_pauses_after_a_retried_segment_are_new() -> None:
    arrived = ArrivedAudio()
    for each in (chunk(0, 400, 4, 0), chunk(400, 100, 0, 0), chunk(0, 400, 4, 0), chunk(400, 100, 0, 0)):
        assert arrived.add(each)
    assert (arrived.end, dict(arrived.frames)) == (500, {0: 4})
