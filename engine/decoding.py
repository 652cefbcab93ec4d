"""Codes to sound for many takes at once: pieces of equal length go through the codec together.

It runs on a thread, and on a GPU on a stream, of its own, so that frames and sound are made at the same time.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.codec import CodecDecoder, DecoderState
from engine.cuda_graph import Recorder, Replay

log = logging.getLogger(__name__)

Samples = NDArray[np.float32]
Deliver = Callable[[Samples | Exception], None]

# What goes through the codec together at most, in all takes: its activations are large.
FRAMES_AT_ONCE = 64
# Lengths that graphs are recorded for; others are put together from them.
GRAPH_FRAMES = (16, 8, 4, 2, 1)


class Line:
    """The sound of one turn; its pieces come out in the order in which they go in.

    follows: the line, already ended, whose state this one goes on from; None at the start of a take.
    """

    def __init__(self, follows: "Line | None" = None) -> None:
        self.follows = follows
        self.after: DecoderState | None = None  # behind the last piece, once it is `finished`
        self.row: int | None = None
        self.pieces: deque[tuple[Tensor, Deliver]] = deque()
        self.ended = self.finished = False

    @property
    def before(self) -> DecoderState | None:
        """The codec's state in front of the first piece."""
        return None if self.follows is None else self.follows.after


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
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="reprise-decoding", daemon=True)
        self._thread.start()

    def submit(self, line: Line, codes: NDArray[np.int64], deliver: Deliver) -> None:
        """Decode the next frames `[K, T]` of a line. `deliver` gets their samples `[n]`, or an error, on our thread."""
        with self._changed:
            if not line.ended:
                line.pieces.append((torch.from_numpy(codes), deliver))
                self._wake(line)

    def end(self, line: Line) -> None:
        """Nothing more comes. When all pieces are out the line keeps its state for one that follows it."""
        with self._changed:
            line.ended = True
            self._wake(line)

    def drop(self, line: Line) -> None:
        """Forget a line with all of it that was not yet decoded."""
        with self._changed:
            line.ended = True
            line.pieces.clear()
            self._wake(line)

    def close(self) -> None:
        """End the thread. Pieces under way are lost."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _wake(self, line: Line) -> None:
        if line not in self._lines and not line.finished:
            self._lines.append(line)
        self._changed.notify()

    @torch.inference_mode()
    def _work(self) -> None:
        with self._batches.stream():
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._ended() or self._ready())
                    if self._closed:
                        return
                    for line in self._ended():
                        self._finish(line)
                    group = self._group()
                    pieces = [line.pieces.popleft() for line in group]
                if group:
                    self._decode(group, pieces)

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
        frames = _next_frames(ready[0]) if ready else 1
        group = [line for line in ready if _next_frames(line) == frames][: max(1, FRAMES_AT_ONCE // frames)]
        for line in group:
            if line.row is None:
                line.row = self._free.pop()
                self._batches.load(line.row, line.before)
            self._lines.remove(line)
            self._lines.append(line)
        return group

    def _finish(self, line: Line) -> None:
        self._lines.remove(line)
        line.finished = True
        if line.row is None:
            line.after = line.before
        else:
            line.after = self._batches.save(line.row)
            self._free.append(line.row)
            line.row = None
        line.follows = None  # or a long take would keep the states of all its turns

    def _decode(self, group: list[Line], pieces: list[tuple[Tensor, Deliver]]) -> None:
        try:
            audio = self._batches.decode([line.row for line in group if line.row is not None], [p[0] for p in pieces])
        except RuntimeError as error:
            log.error("A step of the codec failed.", exc_info=error)
            for _, deliver in pieces:
                deliver(error)
            return
        for (_, deliver), samples in zip(pieces, audio, strict=True):
            deliver(samples)


def _may_begin(line: Line) -> bool:
    return line.follows is None or line.follows.finished


def _next_frames(line: Line) -> int:
    return line.pieces[0][0].shape[1]


class _Batches:
    """The states of all rows, and decoding for some of them. One row behind the last belongs to nobody."""

    def __init__(self, decoder: CodecDecoder, rows: int, device: torch.device, recorder: Recorder | None) -> None:
        self._decoder, self._device, self._recorder = decoder, device, recorder
        self._states = decoder.init_state(rows + 1)
        self._nobody = rows
        self._recorded: dict[tuple[int, int], _Recorded] = {}

    def stream(self) -> torch.cuda.StreamContext | nullcontext[None]:
        if self._device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]

    def load(self, row: int, state: DecoderState | None) -> None:
        index = torch.tensor([row], device=self._device)
        self._states.put(index, self._decoder.init_state(1) if state is None else state)

    def save(self, row: int) -> DecoderState:
        return self._states.take(torch.tensor([row], device=self._device))

    def decode(self, rows: Sequence[int], codes: Sequence[Tensor]) -> list[Samples]:
        """The next frames `[K, T]` of each row → its samples."""
        index, batch = torch.tensor(rows, device=self._device), torch.stack(list(codes)).to(self._device)
        lengths = [batch.shape[2]] if self._recorder is None else _parts(batch.shape[2])
        audio = [self._step(index, part) for part in torch.split(batch, lengths, dim=2)]
        return list(torch.cat(audio, dim=2)[:, 0].float().cpu().numpy())

    def _step(self, index: Tensor, codes: Tensor) -> Tensor:
        recorded = self._recording(1 << (len(index) - 1).bit_length(), codes) if self._recorder else None
        if recorded is None:
            return self._exactly(index, codes)
        count = len(index)
        recorded.index[:count], recorded.index[count:] = index, self._nobody
        recorded.codes[:count] = codes
        return recorded.replay()[:count].clone()

    def _exactly(self, index: Tensor, codes: Tensor) -> Tensor:
        state = self._states.take(index)
        audio = self._decoder.decode_step(codes, state)
        self._states.put(index, state)
        return audio

    def _recording(self, rows: int, codes: Tensor) -> "_Recorded | None":
        key = rows, codes.shape[2]
        if key not in self._recorded and self._recorder:
            index = torch.full((rows,), self._nobody, device=self._device)
            held = torch.zeros(rows, *codes.shape[1:], dtype=codes.dtype, device=self._device)
            try:
                replay = self._recorder.record(self._exactly, index, held)
            except RuntimeError as error:
                log.warning("Decoding without CUDA graphs, more slowly: %s", error)
                self._recorder = None
                return None
            self._recorded[key] = _Recorded(index, held, replay)
        return self._recorded.get(key)


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
