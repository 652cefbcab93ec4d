"""Encoded speech in which the model repeats a segment, with a fake engine."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from api.speech.delivery import respond
from api.speech.stream import EncodedSpeech, SpokenWord
from engine.audio import to_int16
from engine.audio.output.stream import StreamEncoder
from engine.errors import InvalidInput
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, WordTime
from studio.engines.speech_metrics import SpeechMetrics, Usage
from tests.support.fake_engine import FRAME, SAMPLE_RATE, FakeSpeech, Script, buzz
from tests.support.looping import run
from tests.support.waiting import until

FIRST, SECOND = 17, 10  # frames of the two segments
TEXT = f"{'a' * 11} {'b'}. {'c' * 8}."


class Spoken(FakeSpeech):
    sample_rate = SAMPLE_RATE


async def spoken(*, as_whole: bool, max_frames: int | None = None) -> tuple[bytes, Usage, list[SpokenWord]]:
    speech = Spoken(TEXT, SpeakOptions(word_times=True), Script(retry_at=0, tells_words=True))
    encoder = StreamEncoder("pcm", SAMPLE_RATE)
    stream = EncodedSpeech(speech, encoder, Usage(len(TEXT)), max_frames=max_frames, as_whole=as_whole)
    parts = [part async for part in stream.parts()]
    return b"".join(part.data for part in parts), stream.usage, [word for part in parts for word in part.words]


def samples(attempt: int, segment: int) -> np.ndarray:
    start, frames = (0, FIRST) if segment == 0 else (FIRST, SECOND)
    return to_int16(buzz(start * FRAME, frames * FRAME, 110 * (segment + 1) * attempt))


def test_speech_sent_as_a_whole_has_the_last_attempt_only() -> None:
    data, usage, words = run(lambda: spoken(as_whole=True))
    assert np.array_equal(np.frombuffer(data, "<i2"), np.concatenate((samples(2, 0), samples(1, 1))))
    assert (usage.frames, usage.seconds) == (FIRST + SECOND, pytest.approx((FIRST + SECOND) * FRAME / SAMPLE_RATE))
    assert words[0].start == 0
    assert words[1].end == pytest.approx(FIRST * FRAME / SAMPLE_RATE, abs=1e-3)


def test_streamed_speech_has_both_attempts() -> None:
    """The client may have played the first one. Words have the times of the last one."""
    data, usage, words = run(lambda: spoken(as_whole=False))
    expected = np.concatenate((samples(1, 0), samples(2, 0), samples(1, 1)))
    assert np.array_equal(np.frombuffer(data, "<i2"), expected)
    assert usage.frames == 2 * FIRST + SECOND
    assert words[0].start == pytest.approx(FIRST * FRAME / SAMPLE_RATE, abs=1e-3)


def test_speech_sent_as_a_whole_ends_at_its_limit() -> None:
    data, usage, _ = run(lambda: spoken(as_whole=True, max_frames=FIRST - 1))
    assert np.array_equal(np.frombuffer(data, "<i2"), samples(1, 0)[: (FIRST - 1) * FRAME])
    assert usage.frames == FIRST - 1


def test_interrupted_segment_after_a_pause_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speech continues with that pause, which belongs to the segment before it."""

    def chunk(start: int, frames: int, segment: int, level: float) -> AudioChunk:
        return AudioChunk(np.full(FRAME, level, np.float32), start * FRAME, frames, 0.0, segment, 2, "word")

    pause, half = chunk(1, 0, 0, 0.0), chunk(2, 1, 1, 0.25)
    sent = iter([chunk(0, 1, 0, 0.5), pause, half, pause, half, chunk(3, 1, 1, 0.125)])
    monkeypatch.setattr(Spoken, "__next__", lambda _: next(sent))
    data, usage, _ = run(lambda: spoken(as_whole=True))
    levels = np.frombuffer(data, "<i2")[::FRAME]
    assert np.array_equal(levels[levels > 0], to_int16(np.array([0.5, 0.25, 0.125], np.float32)))
    assert usage.frames == 3


def test_first_word_does_not_start_at_minus_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of the chunks' lengths in seconds is less than that of their samples by a rounding error."""
    length, chunks = 3, 6
    silence = np.zeros(length, np.float32)
    told = (WordTime("word", 0.0, 0.1, 0, 0),)
    sent = [AudioChunk(silence, start * length, 1, 0.0, 0, 1, "word") for start in range(chunks)]
    words = AudioChunk(np.zeros(0, np.float32), chunks * length, 0, 0.0, 0, 1, "word", words=told)
    chunk = iter([*sent, words])
    monkeypatch.setattr(Spoken, "__next__", lambda _: next(chunk))
    _, usage, (word,) = run(lambda: spoken(as_whole=False))
    assert usage.seconds < chunks * length / SAMPLE_RATE
    assert str(word.start) == "0.0"


def test_speech_that_fails_before_its_response_begins_is_counted_once() -> None:
    """Its first audio was ready, so the error is one of the response."""
    metrics = SpeechMetrics()
    context: Any = SimpleNamespace(app=SimpleNamespace(engine=SimpleNamespace(metrics=metrics)))
    request: Any = SimpleNamespace(receive=asyncio.Event().wait)

    async def fail() -> None:
        speech = Spoken(TEXT, SpeakOptions(), Script(fail_after=1, failure=InvalidInput("It fails.")))
        stream = EncodedSpeech(speech, StreamEncoder("pcm", SAMPLE_RATE), Usage(len(TEXT)))
        until(lambda: stream.failed)  # blocks the event loop, as a busy one is
        response: Any = await respond(context, stream, request, {})
        with pytest.raises(InvalidInput):
            [part async for part in response.body_iterator]

    run(fail)
    counts = {sample.name: sample.value for each in metrics.collect() for sample in each.samples
              if sample.labels["front_end"] == "api"}  # fmt: skip
    assert (counts["reprise_speeches_total"], counts["reprise_speeches_failed_total"]) == (1, 1)
