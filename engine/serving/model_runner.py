"""Runs both transformers over fixed slots: prompts in pieces, and one frame for any set of slots at once.

One thread uses a runner.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.families.s2.dual_ar import DualAR
from engine.models.frame_step import FrameStep
from engine.models.sampling import SamplingOptions
from engine.serving.graphs import Recorder
from engine.serving.prefix_cache import PrefixCache
from engine.serving.slots import Prompt, Slots
from engine.serving.steps import ExactSteps, GraphMode, StaticSteps, TracedSteps


class Step:
    """A frame under way. result: int64 `[rows, K + 1]`; which of its rows were asked for."""

    def __init__(self, result: Tensor, rows: Sequence[int]) -> None:
        self._rows = list(rows)
        if result.device.type == "cpu":
            self._result, self._done = result, None
            return
        # The host does not wait here: it can start the next frame before it has seen this one.
        self._result = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
        self._result.copy_(result, non_blocking=True)
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._done.record()

    def frames(self) -> NDArray[np.int64]:
        """Waits for it: int64 `[slots, K + 1]`, the semantic draw (S is the end), then the frame's codes."""
        if self._done is not None:
            self._done.synchronize()
        frames: NDArray[np.int64] = self._result.numpy()[self._rows]
        return frames


class Runner:
    """A model with its slots.

    residual_size: entries of a residual codebook. mode: what of a step is recorded, by `recorder`, to be cheap to
    repeat: the whole frame or the Fast AR alone; `off` runs it as it is.
    """

    def __init__(
        self,
        model: DualAR,
        residual_size: int,
        *,
        slots: int,
        positions: int,
        prefixes: PrefixCache,
        recorder: Recorder | None = None,
        mode: GraphMode = "off",
    ) -> None:
        self.config = model.config
        frame = FrameStep(model.slow, model.fast, residual_size)
        self._slots = Slots(model.slow, slots, positions, prefixes)
        self._steps: ExactSteps | TracedSteps | StaticSteps
        if mode == "frame" and recorder is not None and not recorder.fixed_shapes:
            self._steps = TracedSteps(frame, self._slots, recorder)
        elif mode == "frame":
            self._steps = StaticSteps(frame, self._slots, recorder)
        else:
            self._steps = ExactSteps(frame, self._slots, recorder if mode == "fast" else None)

    @property
    def slots(self) -> int:
        return self._slots.count

    @property
    def positions(self) -> int:
        """Positions of a slot, prompt and speech together."""
        return self._slots.positions

    @property
    def end_index(self) -> int:
        """The semantic draw that means the end: one above the semantic tokens."""
        return self.config.semantic_codebook_size

    @property
    def looks_ahead(self) -> bool:
        """Whether steps run while the host does something else, so that the next may be started before one is read."""
        return self._slots.device.type == "cuda"

    @property
    def graph_state(self) -> str:
        """What of a frame is recorded: `frame`, `fast`, or `off` and why."""
        return self._steps.graph_state

    @torch.inference_mode()
    def record_next(self) -> bool:
        """Record one of the steps that the mode says, between two steps; False when all are there.

        A failure shows in `graph_state` and stops nothing.
        """
        return self._steps.record_next()

    @torch.inference_mode()
    def begin(self, slot: int, prompt: Prompt, options: SamplingOptions, key: int) -> int:
        """Give a slot a prompt, and the noise of `key`, a signed 64-bit number. Returns the positions reused.

        Raises ValueError for a prompt that the slot cannot hold.
        """
        return self._slots.begin(slot, prompt, options, key)

    @torch.inference_mode()
    def forget(self, columns: Tensor, free: Sequence[int]) -> None:
        """Drop what is kept of prompts that begin with `columns` `[K + 1, T]`; `free`: slots that nobody speaks in."""
        self._slots.forget(columns, free)

    @torch.inference_mode()
    def prefill(self, slot: int) -> bool:
        """One piece of the slot's prompt goes in. Returns whether it is ready to speak."""
        return self._slots.prefill(slot)

    @torch.inference_mode()
    def step(self, slots: Sequence[int]) -> Step:
        """Start one frame for each of these slots, which must be ready and have a position left."""
        result, rows = self._steps.run(slots)
        for slot in slots:
            self._slots.moved(slot)
        return Step(result, rows)
