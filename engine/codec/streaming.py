"""Streaming of causal layers.

Every layer has `forward(x, state)`. Without a state, `x` is a whole signal. With one, `x` is the next chunk, and the
state is updated, in place or with other buffers of the same size. The concatenated outputs equal that of the whole
signal.
The pattern is that of Kyutai's moshi and pocket-tts.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, Generic, Self, TypeVar, cast

import torch
from torch import Tensor, nn


@dataclass
class StreamingState:
    """State of a layer between chunks. Buffers are `[B, …]` and zero at the start of a signal.

    Subclasses are dataclasses of tensors, states and tuples of states.
    """

    def tensors(self) -> Iterator[Tensor]:
        """Iterate over all buffers, depth first."""
        for field in fields(self):
            value = getattr(self, field.name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, StreamingState):
                    yield from part.tensors()
                else:
                    yield part

    def to(self, device: torch.device | str) -> Self:
        """Return the state on a device: itself or a copy, buffer by buffer. Waits for the copies."""
        return self._mapped(lambda buffer: buffer.to(device))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        def made(part: "Tensor | StreamingState") -> "Tensor | StreamingState":
            return part._mapped(change) if isinstance(part, StreamingState) else change(part)

        twin = copy(self)
        for field in fields(self):
            value = getattr(self, field.name)
            setattr(twin, field.name, tuple(made(p) for p in value) if isinstance(value, tuple) else made(value))
        return twin

    def take(self, rows: Tensor) -> Self:
        """Return a copy of the batch rows with the int64 indices `rows` `[n]`."""
        return self._mapped(lambda buffer: buffer.index_select(0, rows))

    def put(self, rows: Tensor, other: Self) -> None:
        """Replace the batch rows with the int64 indices `rows` `[n]` with those of `other`, `[n, …]`."""
        for buffer, new in zip(self.tensors(), other.tensors(), strict=True):
            buffer.index_copy_(0, rows, new)

    def nbytes(self) -> int:
        """Return the size of all buffers in bytes."""
        return sum(buffer.nbytes for buffer in self.tensors())


S = TypeVar("S", bound=StreamingState)


class StreamingModule(nn.Module, Generic[S]):
    """A layer that can run in chunks: `forward(x, state=None)`."""

    def init_state(self, batch: int) -> S:
        """Return the initial state of `batch` signals, with the device and dtype of the weights."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: S | None = None) -> Tensor:
        raise NotImplementedError


class StatelessLayer(StreamingModule[StreamingState]):
    """A layer that processes each time step independently."""

    def init_state(self, batch: int) -> StreamingState:
        return StreamingState()


@dataclass
class SequentialState(StreamingState):
    """The states of the layers of a `StreamingSequential`, in order."""

    layers: tuple[StreamingState, ...]


class StreamingSequential(StreamingModule[SequentialState]):
    """Different layers in sequence. Their keys are their indices, as in `nn.Sequential`."""

    def __init__(self, *layers: StreamingModule[Any]) -> None:
        super().__init__()
        for i, layer in enumerate(layers):
            self.add_module(str(i), layer)

    def __iter__(self) -> Iterator[StreamingModule[Any]]:
        return cast(Iterator[StreamingModule[Any]], self.children())

    def init_state(self, batch: int) -> SequentialState:
        return SequentialState(tuple(layer.init_state(batch) for layer in self))

    def forward(self, x: Tensor, state: SequentialState | None = None) -> Tensor:
        states: Iterable[Any] = repeat(None) if state is None else state.layers
        for layer, own in zip(self, states, strict=False):
            x = layer(x, own)
        return x


class BlockSequential(StreamingModule[SequentialState]):
    """A sequence whose keys begin with `block.`, as in the release."""

    def __init__(self, *layers: StreamingModule[Any]) -> None:
        super().__init__()
        self.block = StreamingSequential(*layers)

    def init_state(self, batch: int) -> SequentialState:
        return self.block.init_state(batch)

    def forward(self, x: Tensor, state: SequentialState | None = None) -> Tensor:
        out: Tensor = self.block(x, state)
        return out


def extend(past: Tensor, x: Tensor) -> Tensor:
    """Return `past` and `x` concatenated along dimension 2, and update `past` in place to the last steps of both."""
    joined = torch.cat((past, x), dim=2)
    past.copy_(joined.narrow(2, x.shape[2], past.shape[2]))
    return joined
