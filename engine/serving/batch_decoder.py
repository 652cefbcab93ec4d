"""Decodes chunks of many streams as one batch, and counts the memory that it takes."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.streaming import StreamingState
from engine.codec.views import CodecSizes, DecoderView
from engine.serving.device import run_in_limited_memory
from engine.serving.runner.graphs import CapturedGraphs, GraphCapture

# Maximum number of frames of all streams in one batch: the codec's activations are large.
FRAMES_AT_ONCE = 64
# Chunk lengths that graphs are captured for; other lengths are sums of these.
GRAPH_FRAMES = (16, 8, 4, 2, 1)
# Rows of a worker for each slot: the last audio of a turn is decoded while another turn has its slot.
ROWS_PER_SLOT = 2
# Tensors as large as the widest one that are alive at once in a convolutional stack: 6.0 were measured in S2-Pro's
# encoder and 6.4 in its decoder.
_ALIVE = 7


class BatchDecoder:
    """The codec states of all rows, and batched decoding of some of them. An extra row pads the captured batches.

    The first batch of each shape runs in limited memory, for a listener or for a capture.
    """

    def __init__(
        self, decoder: DecoderView, rows: int, device: torch.device, capture: GraphCapture | None, at_once: int
    ) -> None:
        self._decoder, self.device, self._splits, self._at_once = decoder, device, capture is not None, at_once
        self._states = decoder.init_state(rows + 1)
        self._padding_row = rows
        self._needed = decoding_bytes(decoder.config, decoder.init_state(1).nbytes(), at_once)
        self._shapes: set[tuple[int, int]] = set()  # rows and frames of all batches that were decoded without a graph
        self._graphs = CapturedGraphs(capture, "decoding")  # by rows, a power of two, and frames
        # Input buffers of the graphs by frames, rows and codes; each graph reads the first of them.
        self._inputs = {
            frames: self._input_buffers(most, frames) for most, frames in (largest_batches(at_once) if capture else ())
        }

    @property
    def graph_failure(self) -> str:
        return self._graphs.failure

    def part_lengths(self, frames: int) -> list[int]:
        """Return the captured lengths that a chunk is split into; without graphs, that of the whole."""
        if not self._splits:
            return [frames]
        lengths = []
        for size in GRAPH_FRAMES:
            lengths += [size] * (frames // size)
            frames %= size
        return lengths

    def load(self, row: int, state: StreamingState | None) -> None:
        index = torch.tensor([row], device=self.device)
        self._states.put(index, self._decoder.init_state(1) if state is None else state.to(self.device))

    def save(self, row: int) -> StreamingState:
        """Return the row's state in host memory, since every open request keeps one between its turns."""
        return self._states.take(torch.tensor([row], device=self.device)).to("cpu")

    def decode(self, rows: Sequence[int], codes: Sequence[Tensor]) -> list[NDArray[np.float32]]:
        """Decode the next frames `[K, T]` of each row. Returns their samples."""
        index, batch = torch.tensor(rows, device=self.device), torch.stack(list(codes)).to(self.device)
        return list(self._step(index, batch)[:, 0].float().cpu().numpy())

    def _step(self, index: Tensor, codes: Tensor) -> Tensor:
        count, key = len(index), (_power(len(index)), codes.shape[2])
        replay = self._graphs.get(key)
        if replay is None:
            return self._step_eagerly(index, codes)
        held_index, held_codes = self._inputs[codes.shape[2]]
        held_index[:count], held_index[count:] = index, self._padding_row
        held_codes[:count] = codes
        return replay()[:count].clone()

    def _step_eagerly(self, index: Tensor, codes: Tensor) -> Tensor:
        shape, step = (len(index), codes.shape[2]), partial(self._decode_rows, index, codes)
        if shape in self._shapes:
            return step()
        self._shapes.add(shape)
        return run_in_limited_memory(self.device, self._needed, step)

    def _decode_rows(self, index: Tensor, codes: Tensor) -> Tensor:
        state = self._states.take(index)
        audio = self._decoder.decode_step(codes, state)
        self._states.put(index, state)
        return audio

    def capture_next(self) -> bool:
        """Capture one missing batch size, the largest first. Returns False when none is missing."""
        return any(map(self._capture_batch, self._sizes())) or self._graphs.retry()

    def _capture_batch(self, key: tuple[int, int]) -> bool:
        """Capture `key` if it is missing. Returns whether it tried."""
        missing = self._graphs.is_missing(key)
        if missing:
            index, codes = self._inputs[key[1]]
            index.fill_(self._padding_row)
            self._graphs.capture(key, self._step_eagerly, index[: key[0]], codes[: key[0]])
        return missing

    def _input_buffers(self, rows: int, frames: int) -> tuple[Tensor, Tensor]:
        shape = rows, self._decoder.config.num_codebooks, frames
        index = torch.full((rows,), self._padding_row, device=self.device)
        return index, torch.zeros(shape, dtype=torch.long, device=self.device)

    def _sizes(self) -> Iterator[tuple[int, int]]:
        for most, frames in largest_batches(self._at_once):
            yield from ((1 << i, frames) for i in reversed(range(most.bit_length())))


def rows_at_once(frames: int, most: int) -> int:
    """Return the maximum number of rows of a batch of chunks of `frames` frames. most: rows of any batch."""
    return max(1, min(most, FRAMES_AT_ONCE // frames))


def _power(count: int) -> int:
    """Return the smallest power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()


def largest_batches(at_once: int) -> list[tuple[int, int]]:
    """Return the largest number of rows that are decoded at once, padding included, with each captured length."""
    return [(_power(rows_at_once(frames, at_once)), frames) for frames in GRAPH_FRAMES]


def decoding_bytes(codec: CodecSizes, stream: int, at_once: int) -> int:
    """Return the bytes of the codec's largest batch, with a copy of its rows' states.

    stream: bytes of a row's state. at_once: maximum number of rows of a batch.
    """
    frame = activation_bytes(codec.decoder_activation_size)
    return max(rows * (frames * frame + stream) for rows, frames in largest_batches(at_once))


def activation_bytes(values: int) -> int:
    """Return the bytes of a convolutional stack whose widest activation has `values` values."""
    return _ALIVE * 4 * values
