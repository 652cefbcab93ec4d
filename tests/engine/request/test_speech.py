"""Requests and their readers: an unread speech is cancelled, and a slow reader gets all audio."""

from functools import partial
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

from engine.engine import Engine
from engine.errors import EngineBusy, EngineClosed, InvalidText
from engine.options import SpeakOptions
from engine.outputs import AudioChunk
from engine.request import turns
from engine.request.turns import READER_TIMEOUT
from engine.serving import turn as turn_module
from engine.serving.engine_loop import EngineLoop
from engine.serving.scheduler import Scheduler, Ticket
from engine.serving.turn import AudioDecoded, EventStream, Turn, TurnEnded
from engine.text import GrowingText, Segment
from storage.voices.sample_voices import read_sample_voices
from tests.paths import MINIATURE
from tests.support.clock import Clock
from tests.support.waiting import until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(1_000.0)
    monkeypatch.setattr(turn_module, "time", SimpleNamespace(perf_counter=made))
    return made


def events() -> tuple[EventStream, Ticket]:
    scheduler = Scheduler(1, 0)
    ticket = scheduler.enter()
    return EventStream(partial(scheduler.leave, ticket), READER_TIMEOUT), ticket


def put_audio(stream: EventStream) -> None:
    stream.put(AudioDecoded(0, np.zeros(4, np.float32), 1))


def test_unread_audio_cancels_the_request(clock: Clock) -> None:
    stream, ticket = events()
    clock.now += 10 * READER_TIMEOUT  # waiting for a slot does not count
    put_audio(stream)
    clock.now += READER_TIMEOUT
    put_audio(stream)
    assert not ticket.gone
    clock.now += 1
    put_audio(stream)
    assert (stream.timed_out, ticket.gone) == (True, True)


def test_slow_reader_does_not_time_out(clock: Clock) -> None:
    stream, ticket = events()
    for _ in range(50):
        put_audio(stream)
        put_audio(stream)
        clock.now += READER_TIMEOUT
        stream.get()
    assert not stream.timed_out
    assert not ticket.gone


def test_reader_waiting_for_audio_does_not_time_out(clock: Clock) -> None:
    stream, ticket = events()
    put_audio(stream)
    stream.get()
    clock.now += 10 * READER_TIMEOUT  # no event arrived meanwhile
    stream.put(TurnEnded(0))
    put_audio(stream)
    assert not ticket.gone


@pytest.mark.usefixtures("shared_weights")
def test_unread_speech_leaves_its_place_to_another(clock: Clock) -> None:
    """Also when all of its segment has been decoded, so that no audio arrives any more."""
    engine = Engine.load(MINIATURE, "cpu", slots=1, queue=0, graphs="off")
    try:
        loop = engine._pipeline.loop
        unread, stream = loop.enter("ann", READER_TIMEOUT)
        put_audio(stream)
        clock.now += READER_TIMEOUT
        with pytest.raises(EngineBusy):
            loop.enter("ben", READER_TIMEOUT)
        clock.now += 1
        ticket, _ = loop.enter("ben", READER_TIMEOUT)
        assert (stream.timed_out, unread.gone, ticket.gone) == (True, True, False)
        with pytest.raises(EngineBusy):
            loop.enter("carl", READER_TIMEOUT)
    finally:
        engine.close()


@pytest.mark.usefixtures("shared_weights")
def test_unread_speech_leaves_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "READER_TIMEOUT", 0.0)
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    try:
        unread = engine.speak("A sentence that is long enough for several pieces of sound.")
        next(unread, None)  # None if the engine was quicker than this thread, and has cancelled it already
        scheduler = engine._pipeline.loop.scheduler
        until(lambda: len(scheduler.open_tickets()) == 0)
        assert list(unread) == []
        assert unread.result is not None
        assert unread.result.stop_reason == "cancelled"
    finally:
        engine.close()


@pytest.mark.usefixtures("shared_weights")
def test_speech_reports_its_place_in_the_queue() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    speeches = [engine.speak("A sentence to say.", owner=name) for name in ("ann", "ben", "carl")]
    assert [each.queue_position for each in speeches] == [None] * 3, "no turn has been requested yet"
    engine.close()  # the engine loop has ended
    for each in speeches[1:]:
        engine._pipeline.loop.scheduler.enqueue(each._request._turns.ticket)
    assert [each.queue_position for each in speeches] == [None, 0, 1]
    speeches[1].cancel()
    assert [each.queue_position for each in speeches[1:]] == [None, 0]


def growing(engine: Engine, *pieces: str) -> GrowingText:
    text = engine.growing_text()
    for piece in pieces:
        text.append(piece)
    return text


def test_finished_growing_text_equals_fixed_text(bundled_engine: Engine) -> None:
    options = SpeakOptions(0.6, seed=3)
    text = growing(bundled_engine, "Go ", "out. No.")
    text.finish()
    grown = list(bundled_engine.speak(text, options=options))
    fixed = list(bundled_engine.speak("Go out. No.", options=options))
    np.testing.assert_allclose(
        np.concatenate([chunk.samples for chunk in grown]),
        np.concatenate([chunk.samples for chunk in fixed]),
        atol=1e-3,
    )


def test_pause_at_the_end_of_a_growing_text_is_heard(bundled_engine: Engine) -> None:
    text = growing(bundled_engine, "We can go. ")
    speech = bundled_engine.speak(text, options=SpeakOptions(0.6, seed=3))
    first = next(speech)
    text.append("[pause:1.5]")
    text.finish()
    chunks = [first, *speech]
    assert [chunk.start for chunk in chunks[1:]] == [chunk.start + len(chunk.samples) for chunk in chunks[:-1]]
    silence = [len(chunk.samples) for chunk in chunks if not chunk.frames]
    assert sum(silence) == 1.5 * bundled_engine.info.sample_rate
    assert not chunks[-1].frames
    assert speech.result is not None
    assert speech.result.seconds == sum(len(chunk.samples) for chunk in chunks) / bundled_engine.info.sample_rate


def test_growing_text_is_spoken_as_one_conversation(bundled_engine: Engine) -> None:
    """Each piece is appended when the speech has spoken all text so far and waits without a slot."""
    pieces = ["Go out. We", " can go. And", " then? So"]
    text = growing(bundled_engine, pieces[0])
    speech = bundled_engine.speak(text, options=SpeakOptions(0.6, seed=3))
    prompts: list[int] = []
    begin = EngineLoop.submit
    scheduler = bundled_engine._pipeline.loop.scheduler

    def submit(loop: EngineLoop, turn: Turn) -> None:
        prompts.append(turn.prompt.columns.shape[1])
        begin(loop, turn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineLoop, "submit", submit)
        spoken: list[AudioChunk] = []
        reader = Thread(target=lambda: spoken.extend(speech))
        reader.start()
        for number, piece in enumerate([*pieces[1:], None]):
            until(lambda number=number: len(prompts) == number + 1 and len(speech.spoken) == number + 1)  # type: ignore[misc]
            assert len(scheduler.open_tickets()) == 1
            assert scheduler.speaking == 0
            if piece is None:
                text.finish()
            else:
                text.append(piece)
        reader.join()
    assert [segment.text for segment in speech.result.segments] == [  # type: ignore[union-attr]
        "Go out.", "We can go.", "And then?", "So",
    ]  # fmt: skip
    assert [chunk.start for chunk in spoken[1:]] == [chunk.start + len(chunk.samples) for chunk in spoken[:-1]]
    assert prompts[0] < prompts[1] < prompts[2]  # each prompt includes the turns before it
    assert len(scheduler.open_tickets()) == 0


def test_cancelled_speech_leaves_nothing_in_the_prefix_cache(bundled_engine: Engine) -> None:
    """What an open request has spoken is cached when its slot goes to another one, until the request ends."""
    options = SpeakOptions(0.6, seed=3)
    for _ in bundled_engine.speak("Yes.", options=options):
        pass  # the voice is cached
    before = bundled_engine.status().prefix_cache_bytes
    waiting = bundled_engine.speak(growing(bundled_engine, "Go out. We"), options=options)
    reader = Thread(target=lambda: list(waiting))
    reader.start()
    until(lambda: len(waiting.spoken) == 1)
    others = [
        Thread(target=lambda owner=owner: list(bundled_engine.speak("Now we can go.", options=options, owner=owner)))
        for owner in ("ann", "ben")  # as many as slots
    ]
    for other in others:
        other.start()
    until(lambda: bundled_engine.status().prefix_cache_bytes > before)
    for other in others:
        other.join()
    waiting.cancel()
    reader.join()
    until(lambda: bundled_engine.status().prefix_cache_bytes == before)


def test_waiting_for_growing_text_can_be_cancelled(bundled_engine: Engine) -> None:
    speech = bundled_engine.speak(growing(bundled_engine, "Hel"))
    reader = Thread(target=lambda: list(speech))
    reader.start()
    speech.cancel()
    reader.join()
    assert speech.result
    assert (speech.result.stop_reason, speech.result.frames) == ("cancelled", 0)
    assert len(bundled_engine._pipeline.loop.scheduler.open_tickets()) == 0


@pytest.mark.usefixtures("shared_weights")
def test_closed_engine_ends_a_request_that_waits_for_text() -> None:
    engine = Engine.load(MINIATURE, "cpu", slots=1, graphs="off")
    speech = engine.speak(growing(engine, "Hel"))
    failures: list[type[BaseException]] = []

    def read() -> None:
        try:
            list(speech)
        except EngineClosed as error:
            failures.append(type(error))

    reader = Thread(target=read)
    reader.start()
    engine.close()
    reader.join(30)
    assert failures == [EngineClosed]


def test_growing_text_ends_at_an_unknown_speaker(bundled_engine: Engine) -> None:
    text = growing(bundled_engine, "<|speaker:0|>The rain has stopped. ", "<|speak", "er:1|>We can go now. And then?")
    text.finish()
    speech = bundled_engine.speak(text, read_sample_voices()[0].voice, SpeakOptions(0.6, seed=3))
    with pytest.raises(InvalidText, match="speaker 1, but the voice has only speaker 0"):
        list(speech)
    assert len(bundled_engine._pipeline.loop.scheduler.open_tickets()) == 0


def test_growing_text_rejects_unpronounceable_words(bundled_engine: Engine) -> None:
    with pytest.raises(InvalidText, match="speaks English only"):
        growing(bundled_engine, "Привет")
    with pytest.raises(InvalidText, match="pronounce " + "я" * 40 + ";"):
        bundled_engine.check_speakable("я" * 5_000)


def test_long_pause_comes_in_chunks_of_a_second(bundled_engine: Engine) -> None:
    rate = bundled_engine.info.sample_rate
    chunks = list(bundled_engine.speak("Yes.[pause:2.5]", options=SpeakOptions(0.6, seed=3)))
    pause = [chunk for chunk in chunks if not chunk.frames]
    assert [len(chunk.samples) for chunk in pause] == [rate, rate, rate // 2]
    end = sum(len(chunk.samples) for chunk in chunks if chunk.frames)
    assert [chunk.start - end for chunk in pause] == [0, rate, 2 * rate]


def test_pauses_are_silence_of_exact_length(bundled_engine: Engine) -> None:
    """Pauses stand before, between and after segments, one of which may be retried."""
    rate = bundled_engine.info.sample_rate
    speech = bundled_engine.speak(
        "[pause:0.1]We can go. [pause:0.5]Now.[pause:0.25]", options=SpeakOptions(0.6, seed=3)
    )
    end = 0
    pauses, first_audio = [], list[float]()
    for chunk in speech:
        assert chunk.start <= end, "no gap between chunks"
        if chunk.frames:
            first_audio = first_audio or [chunk.elapsed]
        else:
            assert chunk.start == end, "a pause replaces no audio"
            assert not chunk.samples.any()
            pauses.append((len(chunk.samples), chunk.segment))
        end = chunk.start + len(chunk.samples)
    assert pauses == [(round(0.1 * rate), 0), (round(0.5 * rate), 0), (round(0.25 * rate), 1)]
    assert speech.result is not None
    assert [speech.result.first_audio] == first_audio
    assert end == speech.result.frames * bundled_engine.info.frame_length + sum(length for length, _ in pauses)
    assert speech.result.seconds == pytest.approx(end / rate)


def test_cancelled_speech_counts_the_segments_before(bundled_engine: Engine) -> None:
    speech = bundled_engine.speak([Segment("Hello there."), Segment("It rains.")], None, SpeakOptions(seed=1))
    first = next(chunk for chunk in speech if chunk.segment == 1 and chunk.frames)
    speech.cancel()
    last = [first, *speech][-1]  # audio that was decoded before still arrives
    assert speech.result is not None
    assert speech.result.stop_reason == "cancelled"
    assert speech.result.seconds == (last.start + len(last.samples)) / bundled_engine.info.sample_rate


def test_growing_text_without_words_ends_without_audio(bundled_engine: Engine) -> None:
    text = growing(bundled_engine, "[pause:1] …")
    text.finish()
    speech = bundled_engine.speak(text)
    assert list(speech) == []
    assert speech.result is not None
    assert (speech.result.stop_reason, speech.result.segments) == ("end", ())


def test_closed_speech_has_no_result(bundled_engine: Engine) -> None:
    speech = bundled_engine.speak("Hello there.", options=SpeakOptions(seed=1))
    next(speech)
    speech.close()
    assert list(speech) == []
    assert speech.result is None
