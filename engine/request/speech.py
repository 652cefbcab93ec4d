"""One request to speak: segments of text in, a stream of audio chunks out."""

import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import numpy as np

from engine.families.family import PromptVoice
from engine.models.sampling import SamplingOptions
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, SpokenSegment, StopReason
from engine.request.pipeline import SpeechPipeline
from engine.request.timeline import Timeline
from engine.request.turns import Turns
from engine.serving.clips.speaker_adaptations import SpeakerAdaptation
from engine.serving.device import without_torch_modes
from engine.serving.turn import AudioDecoded, TextChanged, Turn, TurnEnded
from engine.text import GrowingText, Segment, check_speakers

_WORST_LAST: tuple[StopReason, ...] = ("end", "short", "length")


class Speech(Iterator[AudioChunk]):
    """The caller's handle of a request. Iterate it once to speak.

    `result` is set when the iteration ends; it stays None after an error or `close`. A speech leaves the engine when it
    is garbage collected, or when its audio is not read for `READER_TIMEOUT` seconds; its stop reason is then
    `cancelled`.

    It is separate from `Request`, which does not refer to it, so that both are freed with the caller's last reference.
    """

    def __init__(self, request: "Request") -> None:
        self._request = request
        self._chunks = request.chunks()
        weakref.finalize(self, request.leave)

    @property
    def seed(self) -> int:
        return self._request.seed

    @property
    def result(self) -> SpeechResult | None:
        return self._request.result

    @property
    def spoken(self) -> tuple[SpokenSegment, ...]:
        """The segments spoken so far; audio of the last one may still follow. For any thread."""
        return self._request.spoken

    @property
    def queue_position(self) -> int | None:
        """Number of waiting turns before its next one; None when it is not waiting. For any thread."""
        return self._request.queue_position

    def __iter__(self) -> "Speech":
        return self

    @without_torch_modes
    def __next__(self) -> AudioChunk:
        return next(self._chunks)

    def cancel(self) -> None:
        """Stop within one frame. The audio so far stays valid; the stop reason is `cancelled`. For any thread."""
        self._request.cancel()

    def close(self) -> None:
        """Cancel, and free the request's memory. Only for the iterating thread; other threads use `cancel`."""
        self.cancel()
        self._chunks.close()


class Request:
    """A text on its way to audio: its segments are spoken as `Turns`, whose audio a `Timeline` places in the take.

    text: segments; or a growing text, whose segments are taken as they arrive. The request waits for them without a
    slot. owner: requests of one owner share their turns. spoken: the first segments of the text, already spoken by
    another engine; the request begins after them. word_times: whether chunks include word times. adapt: returns the
    adaptations to the speakers of the voice's references; called when the request has entered the engine.
    Raises EngineBusy when the engine is full, and InvalidInput for a voice that is too long.
    """

    def __init__(
        self,
        pipeline: SpeechPipeline,
        text: Sequence[Segment] | GrowingText,
        voice: PromptVoice,
        options: SamplingOptions,
        seed: int,
        owner: str = "",
        spoken: Sequence[SpokenSegment] = (),
        *,
        word_times: bool = False,
        adapt: Callable[[], Sequence[SpeakerAdaptation | None]] = tuple,
    ) -> None:
        self.seed = seed
        self.result: SpeechResult | None = None
        self._growing = text if isinstance(text, GrowingText) else None
        self._segments = [] if isinstance(text, GrowingText) else list(text)
        self._speakers, self._scheduler = len(voice.references), pipeline.loop.scheduler
        self._tells_words, self._adapt = word_times, adapt
        self._cancelled = False
        self._timeline = Timeline(self._segments, pipeline.sample_rate, pipeline.frame_length, len(spoken))
        self._turns = Turns(pipeline, self._segments, voice, options, seed, owner, spoken)
        if self._growing is not None:
            self._growing.changed = partial(self._turns.events.put, TextChanged())

    @property
    def spoken(self) -> tuple[SpokenSegment, ...]:
        return tuple(self._turns.spoken)

    @property
    def queue_position(self) -> int | None:
        ticket = self._turns.ticket
        return None if ticket.stage != "waiting" or ticket.gone else self._scheduler.queue_position(ticket)

    def leave(self) -> None:
        """Leave the engine. Idempotent; finalizers may call it."""
        self._turns.leave()

    def cancel(self) -> None:
        self._cancelled = True
        self.leave()
        self._turns.events.put(None)

    def chunks(self) -> Generator[AudioChunk, None, None]:
        """Speak: submit the turns and yield their audio."""
        turns, events = self._turns, self._turns.events
        try:
            if turns.spoken:  # by another engine; the pause after the last one may be missing
                yield from self._timeline.pause_after(len(turns.spoken) - 1, turns.frames)
            if not self._cancelled:
                turns.adaptations = self._adapt()
                self._continue()
            while turns.open or not (self._growing is None or self._growing.over):
                event = events.get()
                self._cancelled |= events.timed_out
                if self._cancelled or event is None:
                    break
                if isinstance(event, Exception):
                    try:
                        raise event
                    finally:
                        del event  # its traceback refers to this frame; the cycle would keep the request's memory
                if isinstance(event, TextChanged):
                    self._continue()
                    continue
                turn = turns.find(event.turn)
                if turn and isinstance(event, TurnEnded):
                    turns.end(turn)
                    self._continue()
                elif turn and isinstance(event, AudioDecoded):
                    turn.arrived.append(event)
                if turn:
                    yield from self._deliver(turn)
                while turns.open and turns.open[0].is_delivered:  # in order: one without audio waits for earlier ones
                    yield from self._finish(turns.open.pop(0))
            yield from self._final_pause()
            self.result = self._summarise()
        finally:
            self.leave()
            turns.drop()

    def _continue(self) -> None:
        """Begin the next segment, unless one is being generated or none has arrived."""
        if self._turns.generating:
            return
        if self._growing is not None and len(self._turns.spoken) == len(self._segments):
            taken = self._growing.take()
            check_speakers(taken, self._speakers)
            self._segments += taken
        self._turns.begin_next()

    def _deliver(self, turn: Turn) -> Iterator[AudioChunk]:
        """Yield the audio of a turn that has arrived."""
        for audio in turn.take_arrived():
            yield from self._timeline.pause_before(turn.segment, turn.start)
            yield self._timeline.chunk(turn, audio)

    def _finish(self, turn: Turn) -> Iterator[AudioChunk]:
        """Yield what follows the audio of a turn: the times of its words, and the pause after it."""
        yield from self._timeline.pause_before(turn.segment, turn.start)
        # Last: neither audio nor the next turn waits for them.
        words = self._timeline.word_times(turn) if self._tells_words else ()
        withdraws = turn.attempt > 1 and not turn.frames and self._timeline.first_audio is not None
        if words or withdraws:
            yield self._timeline.chunk(turn, AudioDecoded(turn.number, np.zeros(0, np.float32), 0), words)
        yield from self._timeline.pause_after(turn.segment, turn.start + turn.frames)

    def _final_pause(self) -> Iterator[AudioChunk]:
        """Yield the pause at the end of a growing text, unless the request is cancelled."""
        if self._growing is not None and self._turns.spoken and not self._cancelled:
            last = len(self._turns.spoken) - 1
            yield from self._timeline.pause(last, self._growing.final_pause, self._turns.frames)

    def _summarise(self) -> SpeechResult:
        results = [segment.result for segment in self._turns.spoken]
        results += [  # one at most, of a cancelled request
            SegmentResult(self._segments[turn.segment].text, "cancelled", turn.delivered, turn.attempt)
            for turn in self._turns.open
            if not turn.accepted
        ]
        reasons = [result.stop_reason for result in results]
        first_audio, timings = self._timeline.first_audio or (None, None)
        return SpeechResult(
            stop_reason="cancelled" if self._cancelled else max(reasons, key=_WORST_LAST.index, default="end"),
            frames=self._turns.delivered,
            seconds=self._timeline.seconds(self._turns.delivered),
            elapsed=self._timeline.elapsed,
            first_audio=first_audio,
            seed=self.seed,
            segments=tuple(results),
            underruns=self._turns.pacer.underruns,
            stall_seconds=self._turns.pacer.stall_seconds,
            first_audio_timings=timings,
        )
