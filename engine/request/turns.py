"""The turns of a request: which segment is spoken, from what, and whether an attempt is kept."""

import hashlib
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from engine.families.family import PromptVoice
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.outputs import SegmentResult, SpokenSegment, StopReason
from engine.request.codec_continuation import CodecContinuation
from engine.request.pipeline import SpeechPipeline
from engine.serving.clips.speaker_adaptations import SpeakerAdaptation
from engine.serving.codec_worker import CodecStream
from engine.serving.pacing import Pacer
from engine.serving.turn import LOOP_MIN_FRAMES, Turn
from engine.text import Segment, frame_budget, frame_minimum, speaking_time

ATTEMPTS = 2
HELD_PHONES = 8  # maximum phones of a segment whose audio is delivered when all of it has been generated
READER_TIMEOUT = 15.0  # seconds after which unread audio ends the request


def noise_key(*parts: int) -> int:
    """Hash `parts` (seed, segment, attempt) to a signed 64-bit noise key, the same on every machine."""
    digest = hashlib.blake2b(",".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class Turns:
    """Speaks the segments of a request, one after the other. One that loops, does not end, or ends too soon is spoken
    again once. If both attempts do, the better one is kept.

    open: turns whose audio is not fully delivered, in order; only the last one may not have been accepted. spoken: the
    segments of the accepted turns. frames: of these. adaptations: to the speakers of the voice's references.
    ticket, events: of the request in the engine. pacer: of the take.
    """

    def __init__(
        self,
        pipeline: SpeechPipeline,
        segments: list[Segment],
        voice: PromptVoice,
        options: SamplingOptions,
        seed: int,
        owner: str,
        spoken: Sequence[SpokenSegment],
    ) -> None:
        """Enter the engine; arguments and errors are those of `Request`. segments: a list that may grow."""
        self.open: list[Turn] = []
        self.spoken: list[SpokenSegment] = []
        self.frames = 0
        self.adaptations: Sequence[SpeakerAdaptation | None] = ()
        self.pacer = Pacer(1 / pipeline.frame_rate, pipeline.codec_worker.lookahead)
        self._pipeline, self._segments, self._options, self._seed = pipeline, segments, options, seed
        self._conversation = pipeline.prompts.conversation(voice, pipeline.positions, pipeline.context_positions)
        self._codec = CodecContinuation(pipeline.codec_worker)
        self._rejected: Turn | None = None  # first attempt at the segment that is spoken again
        self._begun = 0
        for segment in spoken:
            # Removes the same earlier turns from the context as it did then.
            prompt, _ = self._next_prompt(segment.result.text)
            self._codec.accept(None, segment.codes, prompt.codec_context, must_restore=True)
            self._accept(segment)
        self.ticket, self.events = pipeline.loop.enter(owner, READER_TIMEOUT)

    @property
    def generating(self) -> bool:
        """Whether a segment is being generated."""
        return any(not turn.accepted for turn in self.open)

    @property
    def delivered(self) -> int:
        """Frames of the take whose audio is delivered."""
        return self.open[0].start + self.open[0].delivered if self.open else self.frames

    def begin_next(self) -> None:
        """Begin the next segment, if there is one."""
        if len(self.spoken) < len(self._segments):
            self._begin_turn(segment=len(self.spoken), attempt=1, start=self.frames)

    def find(self, number: int) -> Turn | None:
        """Return an open turn by its number; None for one that has been rejected."""
        return next((turn for turn in self.open if turn.number == number), None)

    def end(self, turn: Turn) -> None:
        """Accept a turn that has ended; or reject one that did not end properly, and speak its segment again.

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

    def leave(self) -> None:
        """Leave the engine. Idempotent; finalizers may call it."""
        self._pipeline.loop.leave(self.ticket)

    def drop(self) -> None:
        """Discard the audio of the open turns."""
        for turn in self.open:
            self._pipeline.codec_worker.drop(turn.stream)

    def _begin_turn(self, *, segment: int, attempt: int, start: int) -> None:
        text = self._segments[segment].text
        rate, phones = self._pipeline.frame_rate, self._pipeline.prompts.count_phones(text)
        prompt, budget = self._next_prompt(text)
        turn = Turn(
            number=self._begun,
            segment=segment,
            attempt=attempt,
            start=start,
            prompt=prompt,
            minimum=frame_minimum(text, rate, phones),
            budget=budget,
            held=self._pipeline.aligner is not None and phones is not None and phones <= HELD_PHONES,
            options=self._options,
            key=noise_key(self._seed, segment, attempt),
            ticket=self.ticket,
            stream=self._next_stream(prompt, segment),
            pacer=self.pacer,
            events=self.events,
        )
        self._begun += 1
        self.open.append(turn)
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
        own = [each for speaker, each in enumerate(self.adaptations) if speaker in speakers]
        return own[0] if len(speakers) == len(own) == 1 else None

    def _withdraw(self, turn: Turn) -> None:
        """Take a turn's audio back. The next chunk starts where it started."""
        self._pipeline.codec_worker.drop(turn.stream)
        self.pacer.withdrawn(turn.delivered, time.perf_counter())
        self.open.remove(turn)

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
            number=self._begun,
            attempt=ATTEMPTS,
            stream=self._next_stream(first.prompt, first.segment),
            submitted=0,
            arrived=deque(),
            delivered=0,
        )
        self._begun += 1
        self.open.append(turn)
        self._pipeline.loop.decode_all(turn)
        return turn

    def _accept(self, segment: SpokenSegment) -> None:
        self.frames += segment.result.frames
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
        self.pacer.withdrawn(codes.shape[1] - turn.frames, time.perf_counter())
        if turn.words and turn.words[-1].start >= aligned.frames:
            turn.stop = "short"
