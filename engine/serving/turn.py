"""The turns of a request, from prompt to audio, and their events for the reader."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.families.family import AlignedWord
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.serving.codec_worker import CodecStream, Samples
from engine.serving.pacing import Pacer
from engine.serving.scheduler import Ticket

log = logging.getLogger(__name__)

TurnStop = Literal["end", "length", "loop", "short"]

# A loop is a sequence of semantic tokens that repeats over and over. Pauses repeat tokens too, but not for this long.
LOOP_MAX_PERIOD = 24
LOOP_MIN_FRAMES = 40
LOOP_MIN_REPEATS = 3
_LOOP_FRAMES = {
    period: max(LOOP_MIN_FRAMES, LOOP_MIN_REPEATS * period) for period in range(1, LOOP_MAX_PERIOD + 1)
}  # by period


@dataclass(frozen=True)
class AudioDecoded:
    """The next audio of a turn. turn: its number."""

    turn: int
    samples: Samples
    frames: int


@dataclass(frozen=True)
class TurnEnded:
    """All frames of a turn are generated; some of their audio may follow. turn: its number."""

    turn: int


@dataclass(frozen=True)
class TextChanged:
    """The text of a request was continued or finished."""


Event = AudioDecoded | TurnEnded | TextChanged | Exception | None


class EventStream:
    """Events of a request's turns, from the engine's threads to the reader. Only `get` blocks.

    It is separate from the request because the engine's threads hold it: they must not hold the request, which is freed
    as soon as its reader drops it. Events refer to turns by number: an unread event that held its turn would form a
    cycle.

    leave: removes the request from the engine. It is called, and `timed_out` set, when the reader has taken nothing for
    `timeout` seconds and audio arrives, or another request needs the place. At most one segment waits for the reader:
    the next turn begins when the reader has reached the end of this one.
    """

    def __init__(self, leave: Callable[[], None], timeout: float) -> None:
        self.timed_out = False
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self._leave, self._timeout = leave, timeout
        self._read_at = 0.0  # when the reader last took an event, or the queue was last empty

    def put(self, event: Event) -> None:
        if isinstance(event, AudioDecoded):
            self.leave_if_unread()
        if self._queue.empty():
            self._read_at = time.perf_counter()
        self._queue.put(event)

    def get(self) -> Event:
        """Wait for the next event."""
        event = self._queue.get()
        self._read_at = time.perf_counter()
        return event

    def leave_if_unread(self) -> bool:
        """Remove the request from the engine if its reader has taken nothing for too long; return whether it did."""
        if self._queue.empty() or time.perf_counter() - self._read_at <= self._timeout or self.timed_out:
            return False
        log.info("A speech was not read for %.0f seconds and is cancelled.", self._timeout)
        self.timed_out = True
        self._leave()
        return True


@dataclass(eq=False)
class Turn:
    """One attempt at one segment of a request, from its prompt to its audio.

    number: consecutive within the request. segment: index of its text. attempt: 1, or 2 when the segment is spoken
    again. start: frames of the take before it.
    minimum, budget: the minimum and maximum number of frames for its text. key: noise key, a signed 64-bit number.
    held: whether its audio waits until the attempt is accepted: a text of few words is often repeated, and soon spoken.
    ticket: of the request; its slot is the turn's. stream: decodes its audio. pacer: of the whole take.

    Written by the engine's thread:
    codes: frames so far, each `[K]`. stop: why generation stopped. submitted: frames submitted to the codec worker.
    reused: prompt positions that were already cached; None before prefill.
    started_at, ready_at, first_chunk_at: `time.perf_counter` when it got its slot, when its prompt was in the cache,
    and when the frames of its first chunk were generated; 0 before.

    Written by the reader:
    arrived: audio that it has not taken yet. delivered: frames whose audio it has taken. accepted: whether the attempt
    is accepted. words: each word's frames, if the model can align them. If the last word is missing, the reader changes
    `stop` from "end" to "short"; if the text is repeated, it cuts the repetition off, after which a turn that did not
    end has the stop "end". is_cut: whether it has done so.
    """

    number: int
    segment: int
    attempt: int
    start: int
    prompt: Prompt
    minimum: int
    budget: int
    held: bool
    options: SamplingOptions
    key: int
    ticket: Ticket
    stream: CodecStream
    pacer: Pacer
    events: EventStream

    codes: list[NDArray[np.int64]] = field(default_factory=list)
    stop: TurnStop | None = None
    submitted: int = 0
    reused: int | None = None
    started_at: float = 0.0
    ready_at: float = 0.0
    first_chunk_at: float = 0.0
    _semantic: list[int] = field(default_factory=list)

    arrived: deque[AudioDecoded] = field(default_factory=deque)
    delivered: int = 0
    accepted: bool = False
    words: Sequence[AlignedWord] = ()
    is_cut: bool = False

    @property
    def frames(self) -> int:
        return len(self.codes)

    @property
    def is_delivered(self) -> bool:
        """Whether the attempt is accepted and the reader has all of its audio."""
        return self.accepted and self.delivered >= self.frames

    def take_arrived(self) -> Iterator[AudioDecoded]:
        """Yield the audio that may be delivered now, up to the last frame. The reader counts `delivered`."""
        while self.arrived and (self.accepted or not self.held):
            audio = self.arrived.popleft()
            if frames := min(audio.frames, self.frames - self.delivered):
                length = len(audio.samples) // audio.frames
                samples = audio.samples[: frames * length]
                if self.is_cut and self.delivered + frames == self.frames:
                    samples = _faded_out(samples, length)
                yield replace(audio, samples=samples, frames=frames)

    def cut(self, frames: int) -> None:
        """Drop the frames from `frames` on, unless their audio has been delivered; the last one left fades out.

        If the audio has been delivered up to there, or beyond, the next frame fades out.
        """
        self.is_cut = frames < self.frames
        del self.codes[max(frames, self.delivered + self.is_cut) :]

    def push(self, frame: NDArray[np.int64], end_index: int) -> None:
        """Append the next frame `[K + 1]`: the semantic draw, then the codes. Sets `stop` if it is the last."""
        semantic = int(frame[0])
        if semantic == end_index:
            self.stop = "end" if self.frames >= self.minimum else "short"
            return
        self.codes.append(frame[1:])
        self._semantic.append(semantic)
        if is_looping(self._semantic):
            self.stop = "loop"
        elif self.frames >= self.budget:
            self.stop = "length"


def _faded_out(samples: Samples, length: int) -> Samples:
    """Return samples `[n]` whose last `length` fade out."""
    fade = np.cos(np.linspace(0, np.pi / 2, length, dtype=np.float32)) ** 2
    return np.concatenate([samples[:-length], samples[-length:] * fade])


def is_looping(semantic_codes: list[int]) -> bool:
    """Return whether the last frames repeat with a short period: 40 frames or more, and three periods or more."""
    if len(semantic_codes) < LOOP_MIN_FRAMES:
        return False
    *recent, last = semantic_codes[-1 - LOOP_MAX_PERIOD :]
    if last not in recent:  # nearly always, and this is asked for each frame of each turn
        return False
    for period, span in _LOOP_FRAMES.items():
        if recent[-period] == last and len(semantic_codes) >= span:
            tail = semantic_codes[-span:]
            if tail[period:] == tail[:-period]:
                return True
    return False
