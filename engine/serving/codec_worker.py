"""Codes to sound for many takes at once: pieces of equal length go through the codec together.

It runs on a thread, and on a GPU on a stream, of its own, so that frames and sound are made at the same time.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.codec import CodecDecoder, DecoderState
from engine.errors import EngineClosed
from engine.serving.graphs import Recorder, Replay
from engine.serving.inbox import Inbox

log = logging.getLogger(__name__)

Samples = NDArray[np.float32]
Deliver = Callable[[Samples | Exception], None]

# What goes through the codec together at most, in all takes: its activations are large.
FRAMES_AT_ONCE = 64
# Lengths that graphs are recorded for; others are put together from them.
GRAPH_FRAMES = (16, 8, 4, 2, 1)


@dataclass(frozen=True)
class Piece:
    """Frames of a line `[K, T]`, and who gets their samples."""

    codes: Tensor
    deliver: Deliver

    @property
    def frames(self) -> int:
        return self.codes.shape[1]


class Line:
    """The sound of one turn; its pieces come out in the order in which they go in.

    follows: the line, already ended, whose state this one goes on from; None at the start of a take.
    """

    def __init__(self, follows: "Line | None" = None) -> None:
        self.follows = follows
        self.dropped = False  # the one thing that other threads may change
        self.after: DecoderState | None = None  # behind the last piece, once it is `finished`
        self.row: int | None = None
        self.pieces: deque[Piece] = deque()
        self.ended = self.finished = False
        self.error: Exception | None = None  # why nothing more can be decoded, in this line or in one that follows

    @property
    def before(self) -> DecoderState | None:
        """The codec's state in front of the first piece."""
        return None if self.follows is None else self.follows.after

    @property
    def lost(self) -> Exception | None:
        """Why there is no state, if there is none."""
        return self.error or (None if self.follows is None else self.follows.error)


class Decoding:
    """A decoder view and its pool of `rows` states, on one thread.

    recorder: makes the decoding of a batch cheap to repeat, on devices that can; None runs it as it is.
    """

    def __init__(
        self, decoder: CodecDecoder, rows: int, device: torch.device, recorder: Recorder | None = None
    ) -> None:
        self._batches = _Batches(decoder, rows, device, recorder)
        self._free = list(range(rows))
        self._lines: list[Line] = []  # with something to do, the one that had its turn longest ago first
        self._inbox: Inbox[tuple[Line, Piece | None]] = Inbox()
        self._thread = threading.Thread(target=self._run, name="reprise-decoding", daemon=True)
        self._thread.start()

    def submit(self, line: Line, codes: NDArray[np.int64], deliver: Deliver) -> None:
        """Decode the next frames `[K, T]` of a line.

        `deliver` gets their samples `[n]`, or an error, on our thread; nothing when the line is dropped before.
        """
        if not self._inbox.send((line, Piece(torch.from_numpy(codes), deliver))):
            deliver(EngineClosed())

    def end(self, line: Line) -> None:
        """Nothing more comes. When all pieces are out the line keeps its state for one that follows it."""
        self._inbox.send((line, None))

    def drop(self, line: Line) -> None:
        """Forget a line with all of it that was not yet decoded. May be called by finalizers."""
        line.dropped = True
        self._inbox.nudge()

    def close(self) -> None:
        """End the thread. Pieces under way become EngineClosed."""
        self._inbox.close()
        self._thread.join()

    def _run(self) -> None:
        reason: Exception = EngineClosed()
        try:
            self._work()
        except Exception as error:  # whatever it is, those who wait must not wait for ever
            log.exception("Decoding stopped.")
            reason = error
        self._inbox.close()
        lost = [piece for line in self._lines for piece in line.pieces]
        for piece in (*lost, *(piece for _, piece in self._inbox.read() if piece)):
            piece.deliver(reason)

    @torch.inference_mode()
    def _work(self) -> None:
        with self._batches.stream():
            while self._receive():
                for line in self._ended():
                    self._finish(line)
                if group := self._group():
                    self._decode(group)

    def _receive(self) -> bool:
        """Take in what has come, waiting for it when there is nothing to do. False at the end."""
        busy = self._ended() or self._ready()
        for line, piece in self._inbox.read() if busy else self._wait():
            if line.finished:
                continue
            if line not in self._lines:
                self._lines.append(line)
            if piece is None:
                line.ended = True
            elif line.error:
                piece.deliver(line.error)
            else:
                line.pieces.append(piece)
        for line in self._lines:
            if line.dropped:
                line.ended = True
                line.pieces.clear()
        return not self._inbox.closed

    def _wait(self) -> list[tuple[Line, Piece | None]]:
        while self._inbox.empty and self._batches.record_next():
            pass  # as in the engine's loop
        return self._inbox.wait()

    def _ended(self) -> list[Line]:
        """Lines that are to end and have nothing left to decode."""
        return [line for line in self._lines if line.ended and not line.pieces and _may_begin(line)]

    def _ready(self) -> list[Line]:
        """Lines with a piece to decode, and a row or one to be had."""
        waiting = [line for line in self._lines if line.pieces and _may_begin(line)]
        rowless = [line for line in waiting if line.row is None][: len(self._free)]
        return [line for line in waiting if line.row is not None or line in rowless]

    def _group(self) -> list[Line]:
        """The line whose turn it is, and others whose next piece is as long."""
        ready = self._ready()
        frames = ready[0].pieces[0].frames if ready else 1
        group = [line for line in ready if line.pieces[0].frames == frames][: _rows_at_once(frames)]
        for line in group:
            self._lines.remove(line)
            self._lines.append(line)
        return [line for line in group if line.row is not None or self._begin(line)]

    def _begin(self, line: Line) -> bool:
        """Give the line a row with the state that it goes on from. False if there is none; its pieces are told."""
        line.error = line.lost
        if not line.error:
            try:
                self._batches.load(self._free[-1], line.before)
            except Exception as error:
                log.error("The codec's state could not be restored.", exc_info=error)
                line.error = error
        if not line.error:
            line.row = self._free.pop()
            return True
        while line.pieces:
            line.pieces.popleft().deliver(line.error)
        return False

    def _finish(self, line: Line) -> None:
        self._lines.remove(line)
        line.finished = True
        if line.row is None:
            line.error = line.lost
            line.after = line.before
        else:
            try:
                line.after = self._batches.save(line.row)
            except Exception as error:
                log.error("The codec's state could not be kept.", exc_info=error)
                line.error = error
            self._free.append(line.row)
            line.row = None
        line.follows = None  # or a long take would keep the states of all its turns

    def _decode(self, group: list[Line]) -> None:
        """The next piece of each of these lines, which have rows."""
        pieces = [line.pieces[0] for line in group]
        try:
            rows = [line.row for line in group if line.row is not None]
            audio: Sequence[Samples | Exception] = self._batches.decode(rows, [piece.codes for piece in pieces])
        except Exception as error:
            log.error("A step of the codec failed.", exc_info=error)
            audio = [error] * len(group)
        for line, samples in zip(group, audio, strict=True):
            line.pieces.popleft().deliver(samples)  # one by one: what a listener raises must not cost others theirs


def _may_begin(line: Line) -> bool:
    return line.follows is None or line.follows.finished


def _rows_at_once(frames: int) -> int:
    return max(1, FRAMES_AT_ONCE // frames)


def _power(count: int) -> int:
    """The least power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()


class _Batches:
    """The states of all rows, and decoding for some of them. One row behind the last belongs to nobody."""

    def __init__(self, decoder: CodecDecoder, rows: int, device: torch.device, recorder: Recorder | None) -> None:
        self._decoder, self._device, self._recorder = decoder, device, recorder
        self._states = decoder.init_state(rows + 1)
        self._nobody = rows
        self._recorded: dict[tuple[int, int], _Recorded] = {}  # by rows, a power of two, and frames

    def stream(self) -> torch.cuda.StreamContext | nullcontext[None]:
        if self._device.type != "cuda":
            return nullcontext()
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))  # on which the states were made
        return torch.cuda.stream(stream)

    def load(self, row: int, state: DecoderState | None) -> None:
        index = torch.tensor([row], device=self._device)
        self._states.put(index, self._decoder.init_state(1) if state is None else state)

    def save(self, row: int) -> DecoderState:
        return self._states.take(torch.tensor([row], device=self._device))

    def decode(self, rows: Sequence[int], codes: Sequence[Tensor]) -> list[Samples]:
        """The next frames `[K, T]` of each row → its samples."""
        index, batch = torch.tensor(rows, device=self._device), torch.stack(list(codes)).to(self._device)
        lengths = _parts(batch.shape[2]) if self._recorder else [batch.shape[2]]
        audio = [self._step(index, part) for part in torch.split(batch, lengths, dim=2)]
        return list(torch.cat(audio, dim=2)[:, 0].float().cpu().numpy())

    def _step(self, index: Tensor, codes: Tensor) -> Tensor:
        count, key = len(index), (_power(len(index)), codes.shape[2])
        self._record(key)
        recorded = self._recorded.get(key)
        if recorded is None:
            return self._exactly(index, codes)
        recorded.index[:count], recorded.index[count:] = index, self._nobody
        recorded.codes[:count] = codes
        return recorded.replay()[:count].clone()

    def _exactly(self, index: Tensor, codes: Tensor) -> Tensor:
        state = self._states.take(index)
        audio = self._decoder.decode_step(codes, state)
        self._states.put(index, state)
        return audio

    def record_next(self) -> bool:
        """Record one of the batches that there can be, the largest first; False when all are there."""
        return any(map(self._record, self._sizes()))

    def _record(self, key: tuple[int, int]) -> bool:
        """Whether this batch can be recorded, and was not yet."""
        if self._recorder is None or key in self._recorded:
            return False
        index = torch.full((key[0],), self._nobody, device=self._device)
        shape = key[0], self._decoder.config.num_codebooks, key[1]
        codes = torch.zeros(shape, dtype=torch.long, device=self._device)
        try:
            replay = self._recorder.record(self._exactly, index, codes)
        except Exception as error:
            log.warning("Decoding without recorded steps, more slowly: %s", error)
            self._recorder = None
            return False
        self._recorded[key] = _Recorded(index, codes, replay)
        return True

    def _sizes(self) -> Iterator[tuple[int, int]]:
        for frames in GRAPH_FRAMES:
            most = _power(min(self._nobody, _rows_at_once(frames)))
            yield from ((1 << i, frames) for i in reversed(range(most.bit_length())))


@dataclass(frozen=True)
class _Recorded:
    """A recorded batch: where its rows and codes are read from, and what repeats it."""

    index: Tensor
    codes: Tensor
    replay: Replay


def _parts(frames: int) -> list[int]:
    """`frames` as a sum of lengths that graphs are recorded for."""
    parts = []
    for size in GRAPH_FRAMES:
        parts += [size] * (frames // size)
        frames %= size
    return parts
