"""Decodes codes to audio for many streams at once. Chunks of equal length are decoded as one batch; with graphs, chunks
are first split into parts of the captured lengths.

The worker has its own thread, and on a GPU its own CUDA stream, so that audio is decoded while frames are generated.
"""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.postfilter import Postfilter, PostfilterStream, SpeakerAdaptation
from engine.codec.streaming import StreamingState
from engine.codec.views import DecoderView
from engine.errors import EngineClosed, EngineFailed, RepriseError, first_line
from engine.serving.batch_decoder import BatchDecoder, rows_at_once
from engine.serving.device import own_stream
from engine.serving.inbox import Inbox
from engine.serving.runner.graphs import GraphCapture

log = logging.getLogger(__name__)

Samples = NDArray[np.float32]
Deliver = Callable[[Samples | Exception], None]

# Frames of a chunk when all codes of a stream are known: as many as the largest chunk of a live stream, so that it
# delays live streams no longer than they delay each other.
_DECODE_CHUNK = 16
# Maximum number of context streams to cache, each with the codec's state: those of the most recently used voices.
CONTEXTS_KEPT = 8


@dataclass(frozen=True)
class DecodeJob:
    """Codes `[K, T]` of the next chunk of a stream, and the callback that receives its samples."""

    codes: Tensor
    deliver: Deliver

    @property
    def frames(self) -> int:
        return self.codes.shape[1]


class _PartsJoined:
    """Delivers a chunk when all of its parts are decoded, or their first error."""

    def __init__(self, deliver: Deliver, parts: int) -> None:
        self._deliver, self._parts = deliver, parts
        self._decoded: list[Samples] = []
        self._delivered = False  # set afterwards: if that fails, there is still an error to deliver

    def __call__(self, samples: Samples | Exception) -> None:
        if self._delivered:
            return  # after an error
        if isinstance(samples, Exception):
            self._deliver(samples)
            self._delivered = True
            return
        self._decoded.append(samples)
        if len(self._decoded) == self._parts:
            self._deliver(np.concatenate(self._decoded))
            self._delivered = True


class CodecStream:
    """The codec's state over the audio of one turn. Chunks are decoded in the order in which they are submitted.

    It is separate from the turn because it outlives it: the audio of a turn is decoded while the next turn has the
    slot, and the next turn of the take continues from the state at its end.

    previous: the stream that this one continues, already ended; None at the start of a take.
    plays_after: the stream whose audio comes before this one's in the take, if that is not `previous`.
    adaptation: of its audio to a speaker, by the postfilter; None for none. filtered: whether it passes the postfilter.
    filter: of its audio, if there is a postfilter; set from its first chunk on. deliver_rest: receives what the filter
    still holds when the stream ends; None if that is nothing.
    All fields but `dropped` belong to the worker's thread.
    """

    def __init__(
        self,
        previous: "CodecStream | None" = None,
        plays_after: "CodecStream | None" = None,
        adaptation: SpeakerAdaptation | None = None,
        *,
        filtered: bool = True,
    ) -> None:
        self.previous, self.plays_after = previous, plays_after
        self.adaptation, self.filtered = adaptation, filtered
        self.dropped = False
        self.final_state: StreamingState | None = None  # in host memory; set when `finished`
        self.row: int | None = None
        self.filter: PostfilterStream | None = None
        self.deliver_rest: Deliver | None = None
        self.jobs: deque[DecodeJob] = deque()
        self.ended = self.finished = False
        self.error: Exception | None = None  # why neither this stream nor one that continues it can be decoded

    @property
    def initial_state(self) -> StreamingState | None:
        """The codec's state before the first chunk."""
        return None if self.previous is None else self.previous.final_state

    @property
    def inherited_filter(self) -> PostfilterStream | None:
        """The filter of the stream that this one continues."""
        return None if self.previous is None else self.previous.filter

    @property
    def inherited_error(self) -> Exception | None:
        """Why there is no initial state; None if there is one."""
        return self.error or (None if self.previous is None else self.previous.error)

    @property
    def can_begin(self) -> bool:
        return all(stream is None or stream.finished for stream in (self.previous, self.plays_after))


class CodecWorker:
    """A decoder view and a pool of `rows` codec states, on a thread of their own.

    capture: captures the decoding of a batch as a graph, while neither the worker nor the engine has work, since a
    capture waits for the whole device. Without a graph, decoding is eager.
    at_once: maximum number of rows of a batch; by default all.
    postfilter: of all audio, on the CPU; None for none.
    frame_length: samples of a frame.
    """

    def __init__(
        self,
        decoder: DecoderView,
        rows: int,
        device: torch.device,
        capture: GraphCapture | None = None,
        at_once: int | None = None,
        postfilter: Postfilter | None = None,
    ) -> None:
        self._at_once = at_once or rows
        self._postfilter = postfilter
        self.frame_length = decoder.config.frame_length
        self._batches = BatchDecoder(decoder, rows, device, capture, self._at_once)
        self._free = list(range(rows))
        self._streams: list[CodecStream] = []  # with work left, the least recently served first
        self._inbox: Inbox[tuple[CodecStream, DecodeJob | None]] = Inbox()
        self._received: deque[tuple[CodecStream, DecodeJob | None]] = deque()  # messages that are to be handled
        self._engine_idle = True
        self._contexts: OrderedDict[bytes, CodecStream] = OrderedDict()  # the least recently used first
        self._contexts_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="reprise-decoding", daemon=True)
        self._thread.start()

    def submit(self, stream: CodecStream, codes: NDArray[np.int64], deliver: Deliver) -> None:
        """Decode the next frames `[K, T]` of a stream.

        `deliver` receives their samples `[n]` or an error on the worker's thread; once closed, EngineClosed on the
        caller's. It is not called if the stream is dropped first. With a postfilter, the samples are those of as many
        frames some frames earlier, and the last `deliver` receives the rest when the stream has ended.
        """
        if not self._inbox.send((stream, DecodeJob(torch.from_numpy(codes), deliver))):
            deliver(EngineClosed())

    def end(self, stream: CodecStream) -> None:
        """End a stream. Once all its chunks are decoded it keeps its state for a stream that continues it."""
        self._inbox.send((stream, None))

    def drop(self, stream: CodecStream) -> None:
        """Discard a stream and its undecoded chunks. Finalizers may call it."""
        stream.dropped = True
        self._inbox.wake()

    def decode(self, codes: NDArray[np.int64], *, filtered: bool = True) -> Samples:
        """Decode codes `[K, T]`, T ≥ 1, as a new stream. Returns float32 `[n]`. filtered: by the postfilter, if any.

        Blocks; must not be called on the worker's thread. Raises EngineClosed, EngineFailed.
        """
        stream, decoded = CodecStream(filtered=filtered), SimpleQueue[Samples | Exception]()
        found: list[Samples] = []
        try:
            self._submit_whole(stream, codes, decoded.put)
            while sum(map(len, found)) < codes.shape[1] * self.frame_length:
                found.append(_samples(decoded.get()))
            return np.concatenate(found)
        finally:
            self.drop(stream)  # the remaining chunks, if one has failed or could not be submitted

    def context_stream(self, codes: NDArray[np.int64]) -> CodecStream:
        """Return an ended stream that decodes `codes` `[K, T]`, T ≥ 1, for other streams to continue from.

        Streams are cached by their codes.
        """
        key = codes.tobytes()
        with self._contexts_lock:
            stream = self._contexts.pop(key, None)
            if stream is None or stream.error:
                stream = CodecStream()
                self.prime(stream, codes)
            self._contexts[key] = stream
            while len(self._contexts) > CONTEXTS_KEPT:
                self._contexts.popitem(last=False)
            return stream

    def prime(self, stream: CodecStream, codes: NDArray[np.int64]) -> None:
        """Decode `codes` `[K, T]`, all of a stream, for other streams to continue from; its audio is discarded."""
        self._submit_whole(stream, codes, partial(_keep_error, stream))

    def forget(self, codes: NDArray[np.int64]) -> None:
        """Drop the cached stream of these codes."""
        with self._contexts_lock:
            self._contexts.pop(codes.tobytes(), None)

    def _submit_whole(self, stream: CodecStream, codes: NDArray[np.int64], deliver: Deliver) -> None:
        """Submit all codes of a stream and end it."""
        for at in range(0, codes.shape[1], _DECODE_CHUNK):
            self.submit(stream, codes[:, at : at + _DECODE_CHUNK], deliver)
        self.end(stream)

    def set_engine_idle(self, idle: bool) -> None:
        """Set whether the engine has no turns, so that graphs may be captured."""
        self._engine_idle = idle
        if idle:
            self._inbox.wake()

    @property
    def lookahead(self) -> int:
        """Frames of a stream that are kept back until later ones are decoded, or the stream ends."""
        return 0 if self._postfilter is None else self._postfilter.lookahead

    @property
    def graph_failure(self) -> str:
        """How many batch sizes could not be captured and why; empty if none failed."""
        return self._batches.graph_failure

    @property
    def is_running(self) -> bool:
        """Whether chunks are decoded: False once closed, or after an error that ended the thread."""
        return not self._inbox.closed

    def close(self) -> None:
        """End the thread. Pending chunks receive EngineClosed."""
        self._inbox.close()
        self._thread.join()

    def _run(self) -> None:
        reason: Exception = EngineClosed()
        try:
            self._work()
        except Exception as error:  # of any type: pending callbacks must be called
            log.exception("Decoding stopped.")
            reason = error
        self._inbox.close()
        pending = [job.deliver for stream in self._streams for job in stream.jobs]
        pending += [stream.deliver_rest for stream in self._streams if stream.deliver_rest and not stream.jobs]
        for deliver in (*pending, *(job.deliver for _, job in (*self._received, *self._inbox.read()) if job)):
            try:
                deliver(reason)
            except Exception:  # such as the error that has ended the thread: the others must be called all the same
                log.exception("A reader could not be told.")

    @torch.inference_mode()
    def _work(self) -> None:
        with own_stream(self._batches.device):
            while self._receive():
                for stream in self._ended():
                    self._finish(stream)
                if batch := self._next_batch():
                    self._decode_batch(batch)

    def _receive(self) -> bool:
        """Read new messages, waiting for one when there is no work. Returns False once closed."""
        busy = self._ended() or self._ready()
        self._received.extend(self._inbox.read() if busy else self._wait())
        while self._received:
            self._handle(*self._received[0])
            self._received.popleft()
        for stream in self._streams:
            if stream.dropped:
                stream.ended = True
                stream.jobs.clear()
                stream.deliver_rest = None
        return not self._inbox.closed

    def _handle(self, stream: CodecStream, job: DecodeJob | None) -> None:
        """Handle a message: the next chunk of a stream, or None for its end."""
        if stream.finished:
            return
        if stream not in self._streams:
            self._streams.append(stream)
        if job is None:
            stream.ended = True
        elif stream.error:
            job.deliver(stream.error)
        else:
            if self._postfilter and stream.filtered:
                job = DecodeJob(job.codes, partial(_deliver_filtered, stream, job.deliver))
            stream.jobs.extend(self._parts(job))

    def _parts(self, job: DecodeJob) -> list[DecodeJob]:
        """Split a chunk into jobs of the captured lengths; without graphs, return it whole."""
        lengths = self._batches.part_lengths(job.frames)
        if len(lengths) == 1:
            return [job]
        joined = _PartsJoined(job.deliver, len(lengths))
        return [DecodeJob(codes, joined) for codes in torch.split(job.codes, lengths, dim=1)]

    def _wait(self) -> list[tuple[CodecStream, DecodeJob | None]]:
        while self._inbox.empty and self._engine_idle and self._batches.capture_next():
            pass  # idle time is used for captures; a message waits for one capture at most
        return self._inbox.wait()

    def _ended(self) -> list[CodecStream]:
        """Return the streams that have ended and have nothing left to decode."""
        return [stream for stream in self._streams if stream.ended and not stream.jobs and stream.can_begin]

    def _ready(self) -> list[CodecStream]:
        """Return the streams with a chunk to decode that have a row or can get one."""
        waiting = [stream for stream in self._streams if stream.jobs and stream.can_begin]
        rowless = [stream for stream in waiting if stream.row is None][: len(self._free)]
        return [stream for stream in waiting if stream.row is not None or stream in rowless]

    def _next_batch(self) -> list[CodecStream]:
        """Return the least recently served stream, and others whose next chunk has the same length."""
        ready = self._ready()
        frames = ready[0].jobs[0].frames if ready else 1
        batch = [stream for stream in ready if stream.jobs[0].frames == frames]
        batch = batch[: rows_at_once(frames, self._at_once)]
        # In one step, so that an error, such as a lack of memory, leaves no stream out: `_run` tells them all.
        self._streams = [*(stream for stream in self._streams if stream not in batch), *batch]
        return [stream for stream in batch if stream.row is not None or self._begin(stream)]

    def _begin(self, stream: CodecStream) -> bool:
        """Load the stream's initial state into a free row. On failure its chunks receive the error; returns False."""
        stream.error = stream.inherited_error
        if not stream.error:
            try:
                self._batches.load(self._free[-1], stream.initial_state)
            except Exception as error:
                log.error("The codec's state could not be restored.", exc_info=error)
                stream.error = error
        if not stream.error:
            stream.row = self._free.pop()
            if self._postfilter and stream.filtered:
                stream.filter = PostfilterStream(self._postfilter, stream.inherited_filter, stream.adaptation)
            return True
        while stream.jobs:
            stream.jobs[0].deliver(stream.error)
            stream.jobs.popleft()
        return False

    def _finish(self, stream: CodecStream) -> None:
        if stream.row is None:
            stream.error = stream.inherited_error
            stream.final_state = stream.initial_state
            stream.filter = stream.inherited_filter
        else:
            try:
                stream.final_state = self._batches.save(stream.row)
            except Exception as error:
                log.error("The codec's state could not be kept.", exc_info=error)
                stream.error = error
            self._free.append(stream.row)
            stream.row = None
            if stream.filter:
                rest = _filtered(stream.filter.finish)
                if isinstance(rest, Exception):
                    stream.error = rest
                if stream.deliver_rest and (isinstance(rest, Exception) or len(rest)):
                    stream.deliver_rest(rest)
        stream.deliver_rest = None
        stream.previous = stream.plays_after = None  # or a long take would keep the states of all its turns
        stream.finished = True
        self._streams.remove(stream)  # last: an error before tells the stream, too

    def _decode_batch(self, batch: list[CodecStream]) -> None:
        """Decode the next chunk of each of these streams, which have rows."""
        jobs = [stream.jobs[0] for stream in batch]
        try:
            rows = [stream.row for stream in batch if stream.row is not None]
            audio: Sequence[Samples | Exception] = self._batches.decode(rows, [job.codes for job in jobs])
        except Exception as error:
            log.error("A step of the codec failed.", exc_info=error)
            audio = [error] * len(batch)
        for stream, samples in zip(batch, audio, strict=True):
            stream.jobs[0].deliver(samples)
            stream.jobs.popleft()  # afterwards, and one by one: if a callback raises, this and the others stay pending


def _deliver_filtered(stream: CodecStream, deliver: Deliver, samples: Samples | Exception) -> None:
    """Deliver what the stream's filter has complete, or an error."""
    if not isinstance(samples, Exception):
        assert stream.filter
        samples = _filtered(partial(stream.filter.push, torch.from_numpy(samples)))
    if isinstance(samples, Exception):
        stream.deliver_rest = None
        deliver(samples)
        return
    stream.deliver_rest = deliver
    if len(samples):
        deliver(samples)


def _filtered(work: Callable[[], Tensor]) -> Samples | Exception:
    """Return the samples of a filter, or its error, which is that of its stream alone."""
    try:
        samples: Samples = work().numpy()
    except Exception as error:
        log.error("The postfilter failed.", exc_info=error)
        return error
    return samples


def _keep_error(stream: CodecStream, samples: Samples | Exception) -> None:
    """Discard the samples of a primed stream, but keep its error for the streams that continue from it."""
    if isinstance(samples, Exception):
        stream.error = samples


def _samples(decoded: Samples | Exception) -> Samples:
    if not isinstance(decoded, Exception):
        return decoded
    if isinstance(decoded, RepriseError):
        raise decoded
    raise EngineFailed("engine.codec_failed", why=first_line(decoded)) from decoded
