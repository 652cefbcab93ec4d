"""One request to speak: segments in, a stream of audio chunks out."""

import hashlib
import logging
import time
import weakref
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from engine.models.sampling import SamplingOptions
from engine.serving.codec_worker import CodecStream, CodecWorker, Samples
from engine.serving.conversation import Conversation
from engine.serving.engine_loop import Loop, Speaking
from engine.serving.pacing import Pacer
from engine.serving.scheduler import Ticket
from engine.serving.turn import Turn
from engine.text import Segment, frame_budget
from engine.text.prompt import PromptBuilder, PromptReference

log = logging.getLogger(__name__)

StopReason = Literal["end", "length", "cancelled"]

ATTEMPTS = 2
UNREAD = 15.0  # seconds that sound may wait for its reader


@dataclass(frozen=True)
class AudioChunk:
    """A piece of the take.

    samples: float32 `[n]` in [-1, 1], mono, at the engine's sample rate.
    start: sample offset in the take. Normally where the chunk before ended. When it is smaller, a segment was spoken
        anew: everything from `start` on that came before is replaced.
    frames: codec frames in this chunk. elapsed: seconds since the request.
    segment, segments: 0-based index of the text's segment, and how many there are. text: that segment.
    queued: seconds from the request to its first slot.
    """

    samples: NDArray[np.float32]
    start: int
    frames: int
    elapsed: float
    segment: int
    segments: int
    text: str
    queued: float = 0.0


@dataclass(frozen=True)
class SegmentResult:
    """How one segment went. attempts: 1, or 2 when it was spoken anew."""

    text: str
    stop_reason: StopReason
    frames: int
    attempts: int


@dataclass(frozen=True)
class FirstAudio:
    """Where the time to the first audio went, in seconds; together they are `SpeechResult.first_audio`.

    queue: until there was a slot, text and prompt prepared. prefill: reading the prompt. frames: those of the first
    piece. decode: their sound. reused: positions of the prompt, of `positions`, that were known already.
    """

    queue: float
    prefill: float
    frames: float
    decode: float
    reused: int
    positions: int


@dataclass(frozen=True)
class SpeechResult:
    """How a request went. seconds: of audio. first_audio, elapsed: seconds since the request.

    stop_reason: `end` (all was said), `length` (a segment did not end within its budget and was cut there) or
    `cancelled`.
    underruns, starved: how often, and for how many seconds in all, a listener who began with the first chunk and never
    paused would have had nothing to hear.
    """

    stop_reason: StopReason
    frames: int
    seconds: float
    elapsed: float
    first_audio: float | None
    seed: int
    segments: tuple[SegmentResult, ...]
    underruns: int = 0
    starved: float = 0.0
    stages: FirstAudio | None = None

    @property
    def real_time_factor(self) -> float:
        """Seconds per second of audio, from its first slot on; below 1 is faster than real time. 0 for no audio."""
        queued = self.stages.queue if self.stages else 0.0
        return (self.elapsed - queued) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Speaker:
    """The parts of an engine that a request needs.

    positions: that a prompt and its speech may have together. context: of these, that earlier turns may have.
    """

    loop: Loop
    decoding: CodecWorker
    prompt: PromptBuilder
    frame_length: int
    sample_rate: int
    positions: int
    context: int

    @property
    def frame_rate(self) -> float:
        return self.sample_rate / self.frame_length


def _noise_key(*parts: int) -> int:
    """A signed 64-bit key of its own for every segment and attempt of a request, the same on every machine."""
    digest = hashlib.blake2b(",".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@dataclass(frozen=True)
class _Heard:
    turn: Turn
    samples: Samples
    frames: int


@dataclass(frozen=True)
class _Ended:
    turn: Turn


_Event = _Heard | _Ended | Exception | None


class _Events:
    """What the engine's threads tell a request; nothing here waits.

    When sound comes while the reader has taken nothing for `UNREAD` seconds, the request leaves and `unread` is set.
    More than one segment is never ahead of the reader: the next begins when the reader has come to the end of this one.
    """

    def __init__(self, loop: Loop, ticket: Ticket) -> None:
        self.unread = False
        self._queue: SimpleQueue[_Event] = SimpleQueue()
        self._loop, self._ticket = loop, ticket
        self._read_at = 0.0  # when the reader last took something, or had taken all

    def put(self, event: _Event) -> None:
        if self._queue.empty():
            self._read_at = time.perf_counter()
        self._queue.put(event)

    def get(self) -> _Event:
        """The next event, when there is one."""
        event = self._queue.get()
        self._read_at = time.perf_counter()
        return event

    def heard(self, turn: Turn, samples: Samples, frames: int) -> None:
        if not self._queue.empty() and time.perf_counter() - self._read_at > UNREAD and not self.unread:
            log.info("A speech was not read for %.0f seconds and is cancelled.", UNREAD)
            self.unread = True
            self._loop.leave(self._ticket)
        self.put(_Heard(turn, samples, frames))

    def ended(self, turn: Turn) -> None:
        self.put(_Ended(turn))

    def failed(self, error: Exception) -> None:
        self.put(error)


@dataclass(eq=False)
class _Part:
    """One attempt at a segment. start: frames of the take before it. heard: of its frames, those that came out."""

    index: int
    attempt: int
    start: int
    speaking: Speaking
    heard: int = 0
    judged: bool = False

    @property
    def turn(self) -> Turn:
        return self.speaking.turn

    @property
    def is_out(self) -> bool:
        return self.judged and self.heard >= self.turn.frames


class Speech(Iterator[AudioChunk]):
    """Iterate it once to speak. `cancel` may be called from any thread and ends it within a frame.

    `result` is set when the iteration has ended; it is None when an error ended it. One that nobody holds any more
    leaves the engine by itself, and so does one that makes sound which nobody takes for `UNREAD` seconds: its result
    says `cancelled`.
    """

    def __init__(self, request: "Request") -> None:
        # The work does not know its Speech: or the two would keep each other, and a place in the engine, for long.
        self._request = request
        self._stream = request.speak()
        weakref.finalize(self, request.leave)

    @property
    def seed(self) -> int:
        return self._request.seed

    @property
    def result(self) -> SpeechResult | None:
        return self._request.result

    @property
    def place(self) -> int | None:
        """How many other turns are before its next one; None when it waits for none. May be asked from any thread."""
        return self._request.place

    def __iter__(self) -> "Speech":
        return self

    def __next__(self) -> AudioChunk:
        return next(self._stream)

    def cancel(self) -> None:
        """Stop within one frame. What was spoken stays spoken; the result says `cancelled`."""
        self._request.cancel()

    def close(self) -> None:
        """Cancel, and let go of the request's memory. For the thread that iterates; others `cancel`."""
        self.cancel()
        self._stream.close()


class Request:
    """The work of a `Speech`: says one segment after the other, and one that loops or does not end once more."""

    def __init__(
        self,
        speaker: Speaker,
        segments: Sequence[Segment],
        references: Sequence[PromptReference],
        options: SamplingOptions,
        seed: int,
        owner: str = "",
    ) -> None:
        """owner: whose requests share their turns.

        Raises EngineBusy when too many others are speaking and waiting, and InvalidInput for a voice too long.
        """
        self.seed = seed
        self.result: SpeechResult | None = None
        self._speaker, self._segments, self._options = speaker, segments, options
        self._conversation = Conversation(speaker.prompt, references, speaker.positions, speaker.context)
        self._started = time.perf_counter()
        self._pacer = Pacer(1 / speaker.frame_rate)
        self._cancelled = False
        self._parts: list[_Part] = []  # those that are not all out
        self._line: CodecStream | None = None  # the sound of the segments that are done
        self._first: tuple[float, FirstAudio] | None = None
        self._frames = 0  # in the take so far
        self._done: list[SegmentResult] = []
        self._ticket = speaker.loop.scheduler.enter(owner)
        self._events = _Events(speaker.loop, self._ticket)

    @property
    def place(self) -> int | None:
        if self._ticket.stage != "waiting" or self._ticket.gone:
            return None
        return self._speaker.loop.scheduler.place(self._ticket)

    def leave(self) -> None:
        """Give the place back. May be called again, and by finalizers."""
        self._speaker.loop.leave(self._ticket)

    def cancel(self) -> None:
        self._cancelled = True
        self.leave()
        self._events.put(None)

    def speak(self) -> Generator[AudioChunk, None, None]:
        try:
            if not self._cancelled:
                self._begin(index=0, attempt=1, start=0)
            while self._parts:
                event = self._events.get()
                self._cancelled |= self._events.unread
                if self._cancelled or event is None:
                    break
                if isinstance(event, Exception):
                    try:
                        raise event
                    finally:
                        del event  # its traceback holds this frame: no circle, or the request's memory stays for long
                # What still comes of an attempt that was given up is passed over.
                part = next((part for part in self._parts if part.turn is event.turn), None)
                if part and isinstance(event, _Ended):
                    self._judge(part)
                elif part and isinstance(event, _Heard):
                    yield self._chunk(part, event)
                self._parts = [part for part in self._parts if not part.is_out]
            self.result = self._summarise()
        finally:
            self.leave()
            for part in self._parts:
                self._speaker.decoding.drop(part.speaking.line)

    def _begin(self, *, index: int, attempt: int, start: int) -> None:
        """Ask for a turn that says a segment."""
        text = self._segments[index].text
        prompt, budget = self._conversation.open(text, frame_budget(text, self._speaker.frame_rate))
        turn = Turn(prompt, budget, self._options, _noise_key(self.seed, index, attempt))
        speaking = Speaking(self._ticket, turn, CodecStream(self._line), self._pacer, self._events)
        self._parts.append(_Part(index, attempt, start, speaking))
        self._speaker.loop.say(speaking)

    def _judge(self, part: _Part) -> None:
        """All frames of a part are there: go on, or, when it loops or does not end, say it once more."""
        turn, line = part.turn, part.speaking.line
        if turn.stop != "end" and part.attempt < ATTEMPTS:
            self._speaker.decoding.drop(line)
            self._pacer.withdrawn(part.heard, time.perf_counter())
            self._parts.remove(part)
            self._frames = part.start
            self._begin(index=part.index, attempt=part.attempt + 1, start=part.start)
            return
        part.judged = True
        self._line = line
        text = self._segments[part.index].text
        if turn.stop == "end" and turn.codes:
            self._conversation.keep(text, torch.from_numpy(np.stack(turn.codes, axis=1)))
        self._done.append(SegmentResult(text, "end" if turn.stop == "end" else "length", turn.frames, part.attempt))
        if len(self._done) < len(self._segments):
            self._begin(index=part.index + 1, attempt=1, start=part.start + turn.frames)

    def _chunk(self, part: _Part, heard: _Heard) -> AudioChunk:
        elapsed = time.perf_counter() - self._started
        if self._first is None:
            self._first = elapsed, self._stages(part.speaking, elapsed)
        start = part.start + part.heard
        part.heard += heard.frames
        self._frames = start + heard.frames
        return AudioChunk(
            samples=heard.samples,
            start=start * self._speaker.frame_length,
            frames=heard.frames,
            elapsed=elapsed,
            segment=part.index,
            segments=len(self._segments),
            text=self._segments[part.index].text,
            queued=self._first[1].queue,
        )

    def _stages(self, speaking: Speaking, elapsed: float) -> FirstAudio:
        times = speaking.times
        return FirstAudio(
            queue=times.begun - self._started,
            prefill=times.ready - times.begun,
            frames=times.first_piece - times.ready,
            decode=self._started + elapsed - times.first_piece,
            reused=speaking.reused or 0,
            positions=speaking.turn.prompt.columns.shape[1],
        )

    def _summarise(self) -> SpeechResult:
        if self._cancelled:
            cut = [part for part in self._parts if not part.judged]
            self._done += [SegmentResult(self._segments[p.index].text, "cancelled", p.heard, p.attempt) for p in cut]
        reasons = {segment.stop_reason for segment in self._done}
        first, stages = self._first or (None, None)
        return SpeechResult(
            stop_reason="cancelled" if self._cancelled else "length" if "length" in reasons else "end",
            frames=self._frames,
            seconds=self._frames / self._speaker.frame_rate,
            elapsed=time.perf_counter() - self._started,
            first_audio=first,
            seed=self.seed,
            segments=tuple(self._done),
            underruns=self._pacer.underruns,
            starved=self._pacer.starved,
            stages=stages,
        )
