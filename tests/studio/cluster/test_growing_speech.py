"""A growing text, each part of which is a request to a replica; without a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidText
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, SpokenSegment
from engine.text import GrowingText, Segment
from studio.cluster.messages import SpeakRequest, SpeechItem
from studio.cluster.speech import ClusterRequest
from tests.support.looping import run

UNSPEAKABLE = "“My secret” cannot be spoken."
RATE, FRAMES, LENGTH = 1000, 10, 1000  # Hz; frames and samples of a segment


class Parts(GrowingText):
    """A text of which each call takes one segment."""

    def __init__(self, *segments: Segment, final_pause: float = 0.0) -> None:
        super().__init__()
        self._parts, self.final_pause = list(segments), final_pause

    @property
    def over(self) -> bool:
        return not self._parts

    def take(self) -> list[Segment]:
        return [self._parts.pop(0)] if self._parts else []


async def replica(request: SpeakRequest) -> AsyncIterator[SpeechItem]:
    """Speak as an engine does: a request that continues a speech begins with the pause after its last segment."""
    start, spoken, count = 0, len(request.spoken), len(request.text)
    for at, segment in enumerate(request.text):
        assert isinstance(segment, Segment)
        if at >= spoken:
            yield SpokenSegment(SegmentResult(segment.text, "end", FRAMES, 1), np.zeros((1, FRAMES), np.int64))
            yield AudioChunk(np.ones(LENGTH, np.float32), start, FRAMES, 0.0, at, count, segment.text)
        start += LENGTH
        pause = round(segment.silence_after * RATE)
        if pause and at >= spoken - 1:
            yield AudioChunk(np.zeros(pause, np.float32), start, 0, 0.0, at, count, segment.text)
        start += pause
    yield SpeechResult("end", FRAMES * count, start / RATE, 0.0, 0.0, 1, ())


def speak(*segments: Segment, voices: tuple[Any, ...] = (), final_pause: float = 0.0) -> list[Any]:
    """Return the items of the speech."""
    return speak_text(Parts(*segments, final_pause=final_pause), voices)


def speak_text(text: GrowingText, voices: tuple[Any, ...] = ()) -> list[Any]:
    """Return the items of the speech."""
    request = spoken_request(text, voices)
    return [request.items.get() for _ in range(request.items.qsize())]


def spoken_request(text: GrowingText, voices: tuple[Any, ...] = ()) -> ClusterRequest:
    info: Any = SimpleNamespace(frame_rate=10.0, sample_rate=RATE)
    request = ClusterRequest(replica, info, SpeakRequest("", voices, SpeakOptions(seed=1), ""), text)
    run(request.run)
    return request


class UnspeakableText(Parts):
    """A text that cannot be spoken."""

    def take(self) -> list[Segment]:
        raise InvalidText(UNSPEAKABLE)


def test_log_of_a_failed_speech_does_not_quote_its_text(caplog: pytest.LogCaptureFixture) -> None:
    (error,) = speak_text(UnspeakableText())
    assert str(error) == UNSPEAKABLE
    assert "InvalidText" in caplog.text
    assert UNSPEAKABLE not in caplog.text


def test_pauses_between_parts_are_sent_once_and_segments_are_not_repeated() -> None:
    *chunks, result = speak(Segment("One.", silence_after=0.5), Segment("Two.", silence_after=0.25), Segment("Three."))
    sent = [(chunk.segment, chunk.frames, chunk.start) for chunk in chunks]
    assert sent == [(0, 10, 0), (0, 0, 1000), (1, 10, 1500), (1, 0, 2500), (2, 10, 2750)]
    assert result.frames == 30


def test_pause_at_the_end_of_the_text_is_sent_after_the_last_part_and_its_pause() -> None:
    *chunks, result = speak(Segment("One."), Segment("Two.", silence_after=0.5), final_pause=1.25)
    sent = [(chunk.segment, chunk.frames, chunk.start, len(chunk.samples)) for chunk in chunks]
    assert sent == [(0, 10, 0, 1000), (1, 10, 1000, 1000), (1, 0, 2000, 500), (1, 0, 2500, 1000), (1, 0, 3500, 250)]
    assert not any(chunk.samples.any() for chunk in chunks[2:])
    assert (result.frames, result.seconds) == (20, 3.75)


def test_result_of_a_cancelled_speech_counts_its_pauses() -> None:
    request = spoken_request(Parts(Segment("One.", silence_after=0.5), Segment("Two."), final_pause=0.25))
    result = request.result("cancelled")
    assert (result.stop_reason, result.frames, result.seconds) == ("cancelled", 20, 2.75)


@pytest.mark.parametrize("references", [(1,), (2,), (1, 1), ()])
def test_speakers_without_a_reference_are_refused(references: tuple[int, ...]) -> None:
    """references: of each voice. Without a voice the model picks one for each speaker."""
    voices = tuple(SimpleNamespace(references=(None,) * count) for count in references)
    *chunks, last = speak(Segment("<|speaker:0|>One."), Segment("<|speaker:3|>Two."), voices=voices)
    if references:
        assert [chunk.segment for chunk in chunks] == [0]
        assert isinstance(last, InvalidText)
        assert "speaker 3" in str(last)
    else:
        assert [chunk.segment for chunk in chunks] == [0, 1]
        assert isinstance(last, SpeechResult)
