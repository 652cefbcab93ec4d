"""One request to speak: segments in, a stream of audio chunks out."""

import hashlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.codec import CodecDecoder, DecoderState
from engine.conversation import Conversation
from engine.errors import EngineClosed
from engine.prompt import PromptBuilder, PromptReference
from engine.runner import Runner
from engine.sampling import SamplingOptions
from engine.sequence import Turn
from engine.text import Segment, frame_budget

StopReason = Literal["end", "length", "cancelled"]

# Frames of the first chunks: sound starts soon, then chunks grow, for large ones cost less a frame.
CHUNK_FRAMES = (3, 4, 6, 9, 14, 20)
ATTEMPTS = 2


@dataclass(frozen=True)
class AudioChunk:
    """A piece of the take.

    samples: float32 `[n]` in [-1, 1], mono, at the engine's sample rate.
    start: sample offset in the take. Normally where the chunk before ended. When it is smaller, a segment was spoken
        anew: everything from `start` on that came before is replaced.
    frames: codec frames in this chunk. elapsed: seconds since the request.
    segment, segments: 0-based index of the text's segment, and how many there are. text: that segment.
    """

    samples: NDArray[np.float32]
    start: int
    frames: int
    elapsed: float
    segment: int
    segments: int
    text: str


@dataclass(frozen=True)
class SegmentResult:
    """How one segment went. attempts: 1, or 2 when it was spoken anew."""

    text: str
    stop_reason: StopReason
    frames: int
    attempts: int


@dataclass(frozen=True)
class SpeechResult:
    """How a request went. seconds: of audio. first_audio, elapsed: seconds since the request.

    stop_reason: `end` (all was said), `length` (a segment did not end within its budget and was cut there) or
    `cancelled`.
    """

    stop_reason: StopReason
    frames: int
    seconds: float
    elapsed: float
    first_audio: float | None
    seed: int
    segments: tuple[SegmentResult, ...]

    @property
    def real_time_factor(self) -> float:
        """Seconds of work per second of audio; below 1 is faster than real time. 0 when nothing was spoken."""
        return self.elapsed / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Speaker:
    """The parts of an engine that a request needs."""

    runner: Runner
    decoder: CodecDecoder
    prompt: PromptBuilder
    frame_length: int
    sample_rate: int
    device: torch.device


def _noise_seed(*parts: int) -> int:
    """A 63-bit seed of its own for every segment and attempt of a request, the same on every machine."""
    digest = hashlib.blake2b(",".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Speech(Iterator[AudioChunk]):
    """Iterate it once to speak. `cancel` may be called from any thread and ends it within a frame.

    `result` is set when the iteration has ended; it is None when an error ended it.
    """

    def __init__(
        self,
        speaker: Speaker,
        segments: Sequence[Segment],
        references: Sequence[PromptReference],
        options: SamplingOptions,
        seed: int,
        closed: threading.Event,
    ) -> None:
        self.seed = seed
        self.result: SpeechResult | None = None
        self._speaker, self._segments, self._options = speaker, segments, options
        self._references, self._closed = references, closed
        self._cancelled = threading.Event()
        self._started = time.perf_counter()
        self._first_audio: float | None = None
        self._frames = 0  # in the take so far
        self._chunks = 0
        self._done: list[SegmentResult] = []
        self._stream = self._speak()

    def __iter__(self) -> "Speech":
        return self

    def __next__(self) -> AudioChunk:
        return next(self._stream)

    def cancel(self) -> None:
        """Stop within one frame. What was spoken stays spoken; the result says `cancelled`."""
        self._cancelled.set()

    def close(self) -> None:
        """Cancel, and let go of the request's memory."""
        self.cancel()
        self._stream.close()

    def _speak(self) -> Generator[AudioChunk, None, None]:
        conversation = Conversation(self._speaker.runner, self._speaker.prompt, self._references)
        state = self._speaker.decoder.init_state(1)
        for index in range(len(self._segments)):
            state = yield from self._speak_segment(index, conversation, state)
            if self._stopping():
                break
        self.result = self._summarise()

    def _speak_segment(
        self, index: int, conversation: Conversation, state: DecoderState
    ) -> Generator[AudioChunk, None, DecoderState]:
        """Speak one segment, once more when it loops or does not end; returns the codec's state."""
        text = self._segments[index].text
        start, fresh = self._frames, state.clone()
        for attempt in range(1, ATTEMPTS + 1):
            turn = self._open_turn(conversation, text, index, attempt)
            codes: list[Tensor] = []
            yield from self._stream_turn(turn, index, state, codes)
            if turn.stop == "end" or self._stopping() or attempt == ATTEMPTS:
                break
            conversation.undo()
            self._frames, state = start, fresh
        if turn.stop == "end" and codes:
            conversation.keep(text, torch.stack(codes, dim=1))
        else:
            conversation.undo()
        reason: StopReason = "end" if turn.stop == "end" else "cancelled" if turn.stop is None else "length"
        self._done.append(SegmentResult(text, reason, self._frames - start, attempt))
        return state

    def _open_turn(self, conversation: Conversation, text: str, index: int, attempt: int) -> Turn:
        rate = self._speaker.sample_rate / self._speaker.frame_length
        prompt, budget = conversation.open(text, frame_budget(text, rate))
        generator = torch.Generator(device=self._speaker.device)
        generator.manual_seed(_noise_seed(self.seed, index, attempt))
        return Turn(
            self._speaker.runner,
            conversation.cache,
            prompt,
            budget=budget,
            options=self._options,
            generator=generator,
        )

    def _stream_turn(self, turn: Turn, index: int, state: DecoderState, codes: list[Tensor]) -> Iterator[AudioChunk]:
        """Frames into `codes`, and their sound out in chunks."""
        sent = 0
        while not self._stopping():
            frame = turn.next_frame()
            if frame is not None:
                codes.append(frame)
            size = CHUNK_FRAMES[min(self._chunks, len(CHUNK_FRAMES) - 1)]
            if len(codes) > sent and (frame is None or len(codes) - sent >= size):
                yield self._chunk(torch.stack(codes[sent:], dim=1), index, state)
                sent = len(codes)
            if frame is None:
                return

    def _chunk(self, codes: Tensor, index: int, state: DecoderState) -> AudioChunk:
        audio = self._speaker.decoder.decode_step(codes[None], state)
        samples = audio[0, 0].float().cpu().numpy()
        start = self._frames * self._speaker.frame_length
        self._frames += codes.shape[1]
        self._chunks += 1
        elapsed = time.perf_counter() - self._started
        if self._first_audio is None:
            self._first_audio = elapsed
        return AudioChunk(
            samples, start, codes.shape[1], elapsed, index, len(self._segments), self._segments[index].text
        )

    def _stopping(self) -> bool:
        if self._closed.is_set():
            raise EngineClosed("The engine was closed while it was speaking.")
        return self._cancelled.is_set()

    def _summarise(self) -> SpeechResult:
        reasons = {segment.stop_reason for segment in self._done}
        worst: StopReason = "end"
        if "cancelled" in reasons or len(self._done) < len(self._segments):
            worst = "cancelled"
        elif "length" in reasons:
            worst = "length"
        return SpeechResult(
            stop_reason=worst,
            frames=self._frames,
            seconds=self._frames * self._speaker.frame_length / self._speaker.sample_rate,
            elapsed=time.perf_counter() - self._started,
            first_audio=self._first_audio,
            seed=self.seed,
            segments=tuple(self._done),
        )
