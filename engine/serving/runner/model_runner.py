"""Runs both transformers over the slots: prompts in prefill chunks, and one frame for any set of slots.

For use by one thread.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.families.family import SpeechModel
from engine.models.frame_step import FrameStep
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.serving.device import is_lost, own_stream
from engine.serving.runner.graphs import GraphCapture
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.slots import SlotPool
from engine.serving.runner.step_runners import (
    EagerStepRunner,
    GraphMode,
    SequentialStepRunner,
    StaticStepRunner,
    TracedStepRunner,
)


class PendingFrames:
    """The frames of one step, still being computed on a GPU. result: int64 `[rows, K + 1]`; rows: those to return."""

    def __init__(self, result: Tensor, rows: Sequence[int]) -> None:
        self._rows = list(rows)
        if result.device.type == "cpu":
            self._result, self._done = result, None
            return
        # Copied asynchronously: the host can start the next step before it reads this one.
        self._result = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
        self._result.copy_(result, non_blocking=True)
        self._done = torch.cuda.Event()
        self._done.record()

    def frames(self) -> NDArray[np.int64]:
        """Wait for the step. Returns int64 `[slots, K + 1]`: the semantic draw (S is the end), then the codes."""
        if self._done is not None:
            self._done.synchronize()
        frames: NDArray[np.int64] = self._result.numpy()[self._rows]
        return frames


class ModelRunner:
    """A model and its slots.

    residual_size: entries of a residual codebook. capture, mode: capture the whole frame or only the Fast AR as graphs;
    with `off` every step runs eagerly. deterministic: whether every slot's frame is computed alone, with only the Fast
    AR captured, so that a request's codes do not depend on other requests, on any device.
    """

    def __init__(
        self,
        model: SpeechModel,
        residual_size: int,
        *,
        slots: int,
        positions: int,
        prefixes: PrefixCache,
        capture: GraphCapture | None = None,
        mode: GraphMode = "off",
        deterministic: bool = False,
    ) -> None:
        self._semantic_size = model.slow.semantic_codebook_size
        frame = FrameStep(model.slow, model.fast, residual_size)
        pads_prefill = model.slow.norm.weight.device.type == "cuda" or (capture is not None and capture.fixed_shapes)
        batch_invariant = deterministic or (model.slow.is_batch_invariant and not pads_prefill)
        is_static = mode == "frame" and (capture is None or capture.fixed_shapes) and not deterministic
        self._slots = SlotPool(
            model.slow,
            slots,
            positions,
            prefixes,
            pads_prefill=pads_prefill,
            batch_invariant=batch_invariant,
            capture=capture if is_static else None,
            clears=is_static and model.slow.step_backend is None,  # fused kernels read exact lengths
        )
        self._steps: EagerStepRunner | TracedStepRunner | StaticStepRunner | SequentialStepRunner
        if deterministic:
            self._steps = SequentialStepRunner(frame, self._slots, None if mode == "off" else capture)
        elif is_static:
            self._steps = StaticStepRunner(frame, self._slots, capture)
        elif mode == "frame" and capture is not None:
            self._steps = TracedStepRunner(frame, self._slots, capture)
        else:
            self._steps = EagerStepRunner(frame, self._slots, capture if mode == "fast" else None)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self._slots.count

    @property
    def positions(self) -> int:
        """Positions of a slot, prompt and speech together."""
        return self._slots.positions

    @property
    def end_index(self) -> int:
        """The semantic draw that ends a turn: one above the semantic tokens."""
        return self._semantic_size

    @property
    def is_asynchronous(self) -> bool:
        """Whether steps run while the host works, so that the next can be started before the last is read."""
        return self._slots.device.type == "cuda"

    @property
    def is_lost(self) -> bool:
        """Whether the device refuses all further work."""
        return is_lost(self._slots.device)

    @property
    def graph_state(self) -> str:
        """What is captured: `frame`, `fast`, or `off` and why; and why prompts are not, if that has failed."""
        return "; ".join(filter(None, (self._steps.graphs.state, self._slots.prefill_graphs.failure)))

    def stream(self) -> AbstractContextManager[torch.cuda.Stream | None]:
        """Return a context that runs frames on the model's device and their own stream, before other work of a GPU."""
        return own_stream(self._slots.device, urgent=True)

    @torch.inference_mode()
    def capture_next(self) -> bool:
        """Capture one missing graph. Returns False when none is missing.

        A failure shows in `graph_state`; steps then run eagerly.
        """
        return self._steps.capture_next() or self._slots.prefill_graphs.capture_next()

    @torch.inference_mode()
    def begin(self, slot: int, prompt: Prompt, options: SamplingOptions, key: int) -> int:
        """Assign a prompt and a noise key, a signed 64-bit number, to a slot. Returns the positions reused.

        Raises ValueError for a prompt that does not fit the slot.
        """
        return self._slots.begin(slot, prompt, options, key)

    @torch.inference_mode()
    def has_prefix(self, prefix: Prompt) -> bool:
        """Return whether the keys and values of `prefix`, all of it shared, are cached; they then are on the device."""
        return self._slots.has_prefix(prefix)

    @torch.inference_mode()
    def forget(self, prefix: Prompt, free: Sequence[int]) -> None:
        """Drop keys and values of prompts that begin with `prefix`, all of it shared. free: the slots not in use."""
        self._slots.forget(prefix, free)

    @property
    def prefill_budget(self) -> int:
        """Maximum number of prompt positions of a step."""
        return self._slots.chunk_size

    @property
    def prefills_alone(self) -> bool:
        """Whether each prompt is prefilled alone, because batching gains nothing or loses exactness."""
        return self._slots.prefills_alone

    def prefill_cost(self, slot: int) -> int:
        """Return the budget that the next chunk of the slot's prompt takes, in positions; 0 when it is complete."""
        return self._slots.prefill_cost(self._slots.next_chunk(slot))

    @torch.inference_mode()
    def prefill(self, slots: Sequence[int]) -> list[int]:
        """Compute the next chunk of these slots' prompts. Returns the slots whose prompts are complete."""
        return self._slots.prefill([self._slots.next_chunk(slot) for slot in slots])

    @torch.inference_mode()
    def append_generated(self, slot: int, codes: NDArray[np.int64]) -> None:
        """Record that the slot has spoken all of `codes` `[K, T]`, so that the next turn continues from there."""
        self._slots.append_generated(slot, torch.from_numpy(codes))

    @torch.inference_mode()
    def stash(self, slot: int) -> bytes | None:
        """Keep the spoken turns of an open request whose slot is given to another one.

        Returns: the key for `drop_stash`; None when nothing was kept.
        """
        return self._slots.stash(slot)

    def drop_stash(self, key: bytes) -> None:
        """Drop what `stash` has kept, if it is still there: the request has left."""
        self._slots.drop_stash(key)

    @torch.inference_mode()
    def step(self, slots: Sequence[int]) -> PendingFrames:
        """Start one frame for each of these slots, whose prompts are complete and which have a position left."""
        result, rows = self._steps.run(slots)
        for slot in slots:
            self._slots.advance(slot)
        return PendingFrames(result, rows)
