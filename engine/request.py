"""One request to speak: segments of text in, a stream of audio chunks out."""

import hashlib
import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.families.family import Aligner, Prompts, PromptVoice
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.outputs import (
    AudioChunk,
    FirstAudioTimings,
    SegmentResult,
    SpeechResult,
    SpokenSegment,
    StopReason,
    WordTime,
)
from engine.serving.clips.speaker_adaptations import SpeakerAdaptation
from engine.serving.codec_worker import CodecStream, CodecWorker
from engine.serving.device import without_torch_modes
from engine.serving.engine_loop import EngineLoop
from engine.serving.pacing import Pacer
from engine.serving.turn import LOOP_MIN_FRAMES, AudioDecoded, TextChanged, Turn, TurnEnded
from engine.text import GrowingText, Segment, check_speakers, frame_budget, frame_minimum, speaking_time

_WORST_LAST: tuple[StopReason, ...] = ("end", "short", "length")

ATTEMPTS = 2
HELD_PHONES = 8  # maximum phones of a segment whose audio is delivered when all of it has been generated
# Last frames that are decoded again to restore the codec's state. With 32, the bundled model's audio differs by -85 dB.
RESTORED_FRAMES = 64
READER_TIMEOUT = 15.0  # seconds after which unread audio ends the request


@dataclass(frozen=True)
class SpeechPipeline:
    """The parts of an engine that a request goes through, and their sizes.

    positions: maximum for a prompt and its speech together. context_positions: maximum of these for earlier turns.
    aligner: finds word times; None for a model without them.
    """

    loop: EngineLoop
    codec_worker: CodecWorker
    prompts: Prompts
    frame_length: int
    sample_rate: int
    positions: int
    context_positions: int
    aligner: Aligner | None = None

    @property
    def frame_rate(self) -> float:
        return self.sample_rate / self.frame_length

    def prepare(self, voice: PromptVoice) -> None:
        """Compute in advance what the caches are to hold of a voice's prompts."""
        for prefix in self.prompts.prefixes(voice):
            if prefix.columns.shape[1] + 1 < self.positions:
                self.loop.prepare(prefix)

    def forget(self, voice: PromptVoice) -> None:
        """Drop what the caches hold of a voice's prompts."""
        for prefix in self.prompts.prefixes(voice):
            self.loop.forget(prefix)


class PauseSamples:
    """The pauses of a text, in samples. Each is given once.

    given: samples so far. A segment that is spoken again still starts after the pause before it.
    """

    def __init__(self, segments: list[Segment], sample_rate: int) -> None:
        """segments: a list that may grow."""
        self.given = 0
        self._segments, self._rate = segments, sample_rate
        self._begun: set[int] = set()

    def skip(self, count: int) -> None:
        """Count the pauses of the first `count` segments as given, except the one after the last."""
        known = self._segments[:count]
        self._begun.update(range(count))
        for place, segment in enumerate(known, 1):
            self.give(segment.silence_before)
            if place < count:
                self.give(segment.silence_after)

    def before(self, segment: int) -> int:
        """Return the samples of all pauses before a segment's audio, given or not."""
        earlier = sum(
            round(each.silence_before * self._rate) + round(each.silence_after * self._rate)
            for each in self._segments[:segment]
        )
        return earlier + round(self._segments[segment].silence_before * self._rate)

    def take_before(self, segment: int) -> int:
        """Return the pause before a segment whose audio is about to be yielded; 0 after the first call."""
        if segment in self._begun:
            return 0
        self._begun.add(segment)
        return self.give(self._segments[segment].silence_before)

    def take_after(self, segment: int) -> int:
        """Return the pause after a segment whose audio is complete."""
        return self.give(self._segments[segment].silence_after) if segment < len(self._segments) else 0

    def give(self, seconds: float) -> int:
        """Count a pause as given, and return its samples."""
        samples = round(seconds * self._rate)
        self.given += samples
        return samples


class CodecContinuation:
    """The codec's state after the accepted turns of a take, from which the next turn is decoded.

    A turn continues from turns with an equal codec context (`Prompt.codec_context`), or else begins after its context.
    """

    def __init__(self, worker: CodecWorker) -> None:
        self._worker = worker
        self._stream: CodecStream | None = None  # of the last accepted turn
        self._context: Tensor | None = None  # of its prompt
        self._last_codes: NDArray[np.int64] | None = None  # the last ones of the accepted turns after it `[K, T]`
        self._must_restore = False

    def accept(
        self, stream: CodecStream | None, codes: NDArray[np.int64], context: Tensor | None, *, must_restore: bool
    ) -> None:
        """Continue after a turn with these codes `[K, T]`.

        must_restore: whether `stream` is not in the state after them, and is restored by decoding the last ones again.
        """
        if not _is_same(self._context, context):
            self._context, self._last_codes = context, None
        if codes.size:
            joined = codes if self._last_codes is None else np.hstack((self._last_codes, codes))
            self._last_codes = joined[:, -RESTORED_FRAMES:]
        self._stream, self._must_restore = stream, must_restore

    def next_stream(
        self, context: Tensor | None, adaptation: SpeakerAdaptation | None, last: SpeakerAdaptation | None
    ) -> CodecStream:
        """Create the stream of a turn. adaptation: to its speaker. last: to that of the last accepted turn."""
        continues = _is_same(self._context, context)
        if continues and self._must_restore:
            self._restore(last)
        previous = self._stream if continues else None
        return CodecStream(previous or self._after(context), self._stream, adaptation)

    def _restore(self, adaptation: SpeakerAdaptation | None) -> None:
        self._must_restore = False
        if self._last_codes is not None:
            self._stream = CodecStream(self._after(self._context), self._stream, adaptation)
            self._worker.prime(self._stream, self._last_codes)

    def _after(self, context: Tensor | None) -> CodecStream | None:
        return None if context is None else self._worker.context_stream(context.numpy())


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two codec contexts are equal."""
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def noise_key(*parts: int) -> int:
    """Hash `parts` (seed, segment, attempt) to a signed 64-bit noise key, the same on every machine."""
    digest = hashlib.blake2b(",".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


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
        return tuple(self._request.spoken)

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
    """A request's segments, its ticket and its turns. Segments are spoken one after the other; one that loops, does not
    end, or ends too soon is spoken again once. If both attempts do, the better one is kept.

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
        self.spoken: list[SpokenSegment] = []
        self.result: SpeechResult | None = None
        self._pipeline, self._options = pipeline, options
        self._growing = text if isinstance(text, GrowingText) else None
        self._segments = [] if isinstance(text, GrowingText) else list(text)
        self._speakers = len(voice.references)
        self._conversation = pipeline.prompts.conversation(voice, pipeline.positions, pipeline.context_positions)
        self._requested_at = time.perf_counter()
        self._pacer = Pacer(1 / pipeline.frame_rate, pipeline.codec_worker.lookahead)
        self._cancelled = False
        self._turns: list[Turn] = []  # not yet delivered
        self._rejected: Turn | None = None  # first attempt at the segment that is spoken again
        self._turns_begun = 0
        self._codec = CodecContinuation(pipeline.codec_worker)
        self._first_audio: tuple[float, FirstAudioTimings] | None = None
        self._frames = 0  # in the take so far
        self._accepted_frames = 0  # of the accepted turns
        self._pauses = PauseSamples(self._segments, pipeline.sample_rate)
        for segment in spoken:
            # Removes the same earlier turns from the context as it did then.
            prompt, _ = self._next_prompt(segment.result.text)
            self._codec.accept(None, segment.codes, prompt.codec_context, must_restore=True)
            self._accept(segment)
        self._frames = self._accepted_frames
        self._pauses.skip(len(spoken))
        self._tells_words, self._adapt = word_times, adapt
        self._adaptations: Sequence[SpeakerAdaptation | None] = ()
        self._ticket, self._events = pipeline.loop.enter(owner, READER_TIMEOUT)
        if self._growing is not None:
            self._growing.changed = partial(self._events.put, TextChanged())

    @property
    def queue_position(self) -> int | None:
        if self._ticket.stage != "waiting" or self._ticket.gone:
            return None
        return self._pipeline.loop.scheduler.queue_position(self._ticket)

    def leave(self) -> None:
        """Leave the engine. Idempotent; finalizers may call it."""
        self._pipeline.loop.leave(self._ticket)

    def cancel(self) -> None:
        self._cancelled = True
        self.leave()
        self._events.put(None)

    def chunks(self) -> Generator[AudioChunk, None, None]:
        """Speak: submit the turns and yield their audio."""
        try:
            if self.spoken:  # by another engine; the pause after the last one may be missing
                last = len(self.spoken) - 1
                yield from self._pause(last, self._pauses.take_after(last), self._accepted_frames)
            if not self._cancelled:
                self._adaptations = self._adapt()
                self._continue()
            while self._turns or not (self._growing is None or self._growing.over):
                event = self._events.get()
                self._cancelled |= self._events.timed_out
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
                # Events of a rejected attempt have no turn here and are ignored.
                turn = next((turn for turn in self._turns if turn.number == event.turn), None)
                if turn and isinstance(event, TurnEnded):
                    self._end_turn(turn)
                elif turn and isinstance(event, AudioDecoded):
                    turn.arrived.append(event)
                if turn:
                    yield from self._deliver(turn)
                while self._turns and self._turns[0].is_delivered:  # in order: one without audio waits for earlier ones
                    yield from self._finish(self._turns.pop(0))
            yield from self._final_pause()
            self.result = self._summarise()
        finally:
            self.leave()
            for turn in self._turns:
                self._pipeline.codec_worker.drop(turn.stream)

    def _deliver(self, turn: Turn) -> Iterator[AudioChunk]:
        """Yield the audio of a turn that has arrived."""
        for audio in turn.take_arrived():
            yield from self._pause(turn.segment, self._pauses.take_before(turn.segment), turn.start)
            yield self._chunk(turn, audio)

    def _finish(self, turn: Turn) -> Iterator[AudioChunk]:
        """Yield what follows the audio of a turn: the times of its words, and the pause after it."""
        yield from self._pause(turn.segment, self._pauses.take_before(turn.segment), turn.start)
        words = self._word_times(turn)  # last: neither audio nor the next turn waits for them
        withdraws = turn.attempt > 1 and not turn.frames and self._first_audio is not None
        if words or withdraws:
            yield self._chunk(turn, AudioDecoded(turn.number, np.zeros(0, np.float32), 0), words)
        yield from self._pause(turn.segment, self._pauses.take_after(turn.segment), turn.start + turn.frames)

    def _continue(self) -> None:
        """Begin the next segment, unless one is being generated or none has arrived."""
        if any(not turn.accepted for turn in self._turns):
            return
        if self._growing is not None and len(self.spoken) == len(self._segments):
            taken = self._growing.take()
            check_speakers(taken, self._speakers)
            self._segments += taken
        if len(self.spoken) < len(self._segments):
            self._begin_turn(segment=len(self.spoken), attempt=1, start=self._accepted_frames)

    def _begin_turn(self, *, segment: int, attempt: int, start: int) -> None:
        text = self._segments[segment].text
        rate, phones = self._pipeline.frame_rate, self._pipeline.prompts.count_phones(text)
        prompt, budget = self._next_prompt(text)
        turn = Turn(
            number=self._turns_begun,
            segment=segment,
            attempt=attempt,
            start=start,
            prompt=prompt,
            minimum=frame_minimum(text, rate, phones),
            budget=budget,
            held=self._pipeline.aligner is not None and phones is not None and phones <= HELD_PHONES,
            options=self._options,
            key=noise_key(self.seed, segment, attempt),
            ticket=self._ticket,
            stream=self._next_stream(prompt, segment),
            pacer=self._pacer,
            events=self._events,
        )
        self._turns_begun += 1
        self._turns.append(turn)
        self._pipeline.loop.submit(turn)

    def _next_prompt(self, text: str) -> tuple[Prompt, int]:
        """Make room for a segment in the context. Returns its prompt and its maximum number of frames."""
        return self._conversation.begin_turn(text, frame_budget(text, self._pipeline.frame_rate))

    def _next_stream(self, prompt: Prompt, segment: int) -> CodecStream:
        """Create the codec stream of a turn."""
        last = self._adaptation(segment - 1) if segment else None
        return self._codec.next_stream(prompt.codec_context, self._adaptation(segment), last)

    def _adaptation(self, segment: int) -> SpeakerAdaptation | None:
        """Return the adaptation to the speaker of a segment; None if it has several."""
        speakers = set(self._segments[segment].speakers) or {0}
        own = [each for speaker, each in enumerate(self._adaptations) if speaker in speakers]
        return own[0] if len(speakers) == len(own) == 1 else None

    def _end_turn(self, turn: Turn) -> None:
        """Accept a turn and begin the next; or reject one that did not end properly and speak its segment again.

        If both attempts at a segment are such, the second one is kept unless the first one was better. Its audio may
        have been played by then, because no audio waits for the outcome; that of the first one is then delivered again.
        """
        self._align(turn)
        if turn.stop != "end" and turn.attempt < ATTEMPTS:
            self._withdraw(turn)
            self._rejected = turn
            self._begin_turn(segment=turn.segment, attempt=turn.attempt + 1, start=turn.start)
            return
        first, self._rejected = self._rejected, None
        if turn.stop != "end" and first is not None and self._flaw(first) < self._flaw(turn):
            self._withdraw(turn)
            turn = self._deliver_again(first)
        turn.accepted = True
        text = self._segments[turn.segment].text
        stop_reason: StopReason = "length" if turn.stop is None or turn.stop == "loop" else turn.stop
        codes = np.stack(turn.codes, axis=1) if turn.codes else np.zeros((0, 0), np.int64)
        has_more = turn.frames < turn.submitted  # the stream has also decoded what was cut off
        self._codec.accept(turn.stream, codes, turn.prompt.codec_context, must_restore=has_more)
        self._accept(SpokenSegment(SegmentResult(text, stop_reason, turn.frames, turn.attempt), codes))
        self._continue()

    def _withdraw(self, turn: Turn) -> None:
        """Take a turn's audio back. The next chunk starts where it started."""
        self._pipeline.codec_worker.drop(turn.stream)
        self._pacer.withdrawn(turn.delivered, time.perf_counter())
        self._turns.remove(turn)
        self._frames = turn.start

    def _flaw(self, turn: Turn) -> float:
        """Return how far a turn's length is from that of its text at an ordinary pace, as the logarithm of their ratio.

        A turn that is much too short lacks words, one that is much too long has sound that does not belong to them.
        What repeats at the end of a loop is not counted. A turn without sound is worse than any other.
        """
        if not turn.frames:
            return math.inf
        frames = turn.frames - (LOOP_MIN_FRAMES if turn.stop == "loop" else 0)
        usual = speaking_time(self._segments[turn.segment].text) * self._pipeline.frame_rate
        return abs(math.log((frames + 1) / (usual + 1)))

    def _deliver_again(self, first: Turn) -> Turn:
        """Decode the codes of a rejected attempt once more. Returns its turn, which has ended."""
        turn = replace(
            first,
            number=self._turns_begun,
            attempt=ATTEMPTS,
            stream=self._next_stream(first.prompt, first.segment),
            submitted=0,
            arrived=deque(),
            delivered=0,
        )
        self._turns_begun += 1
        self._turns.append(turn)
        self._pipeline.loop.decode_all(turn)
        return turn

    def _accept(self, segment: SpokenSegment) -> None:
        self._accepted_frames += segment.result.frames
        if segment.result.stop_reason == "end" and segment.codes.size:
            self._conversation.append(segment.result.text, torch.from_numpy(segment.codes))
        self.spoken.append(segment)

    def _align(self, turn: Turn) -> None:
        """Find the frames of each word, if the model can, and cut off a repetition of the text.

        A turn without its last word ended too soon. One that did not end has ended before it repeats its text, unless
        the repetition has been delivered.
        """
        aligner = self._pipeline.aligner
        if aligner is None or turn.stop == "short" or not turn.codes:
            return
        codes = torch.from_numpy(np.stack(turn.codes, axis=1))
        aligned = aligner.align(turn.prompt, self._segments[turn.segment].text, codes)
        if turn.stop != "end":
            if not max(turn.minimum, turn.delivered) <= aligned.frames < turn.frames:
                return
            turn.stop = "end"
        turn.words = aligned.words
        turn.cut(aligned.frames)
        self._pacer.withdrawn(codes.shape[1] - turn.frames, time.perf_counter())
        if turn.words and turn.words[-1].start >= aligned.frames:
            turn.stop = "short"

    def _word_times(self, turn: Turn) -> tuple[WordTime, ...]:
        if not self._tells_words:
            return ()
        rate = self._pipeline.frame_rate
        before = self._pauses.before(turn.segment) / self._pipeline.sample_rate  # seconds of silence
        return tuple(
            WordTime(
                w.text,
                before + (turn.start + w.start) / rate,
                before + (turn.start + w.end) / rate,
                turn.segment,
                w.offset,
            )
            for w in turn.words
        )

    def _chunk(self, turn: Turn, audio: AudioDecoded, words: tuple[WordTime, ...] = ()) -> AudioChunk:
        elapsed = time.perf_counter() - self._requested_at
        if self._first_audio is None:
            self._first_audio = elapsed, self._timings(turn, elapsed)
        start = turn.start + turn.delivered
        turn.delivered += audio.frames
        self._frames = start + audio.frames
        return AudioChunk(
            samples=audio.samples,
            start=start * self._pipeline.frame_length + self._pauses.given,
            frames=audio.frames,
            elapsed=elapsed,
            segment=turn.segment,
            segments=len(self._segments),
            text=self._segments[turn.segment].text,
            queued=self._first_audio[1].queue,
            words=words,
        )

    def _pause(self, segment: int, samples: int, at: int) -> Iterator[AudioChunk]:
        """Yield the pause before or after a segment, of so many samples, in chunks of at most a second.

        at: frames of the take before it.
        """
        second = self._pipeline.sample_rate
        first = at * self._pipeline.frame_length + self._pauses.given - samples
        for done in range(0, samples, second):
            yield AudioChunk(
                samples=np.zeros(min(second, samples - done), np.float32),
                start=first + done,
                frames=0,
                elapsed=time.perf_counter() - self._requested_at,
                segment=segment,
                segments=len(self._segments),
                text=self._segments[segment].text,
                queued=self._first_audio[1].queue if self._first_audio else 0.0,
            )

    def _final_pause(self) -> Iterator[AudioChunk]:
        """Yield the pause at the end of a growing text, unless the request is cancelled."""
        seconds = self._growing.final_pause if self._growing is not None else 0.0
        if seconds and self.spoken and not self._cancelled:
            yield from self._pause(len(self.spoken) - 1, self._pauses.give(seconds), self._accepted_frames)

    def _timings(self, turn: Turn, elapsed: float) -> FirstAudioTimings:
        return FirstAudioTimings(
            queue=turn.started_at - self._requested_at,
            prefill=turn.ready_at - turn.started_at,
            frames=turn.first_chunk_at - turn.ready_at,
            decode=self._requested_at + elapsed - turn.first_chunk_at,
            reused=turn.reused or 0,
            positions=turn.prompt.columns.shape[1],
        )

    def _summarise(self) -> SpeechResult:
        results = [segment.result for segment in self.spoken]
        if self._cancelled:
            results += [
                SegmentResult(self._segments[turn.segment].text, "cancelled", turn.delivered, turn.attempt)
                for turn in self._turns
                if not turn.accepted
            ]
        reasons = [result.stop_reason for result in results]
        first_audio, timings = self._first_audio or (None, None)
        return SpeechResult(
            stop_reason="cancelled" if self._cancelled else max(reasons, key=_WORST_LAST.index, default="end"),
            frames=self._frames,
            seconds=self._frames / self._pipeline.frame_rate + self._pauses.given / self._pipeline.sample_rate,
            elapsed=time.perf_counter() - self._requested_at,
            first_audio=first_audio,
            seed=self.seed,
            segments=tuple(results),
            underruns=self._pacer.underruns,
            stall_seconds=self._pacer.stall_seconds,
            first_audio_timings=timings,
        )
