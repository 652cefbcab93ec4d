"""Engines for benchmarks: with any model, and with everything captured before the clock starts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.random_release import natural_turns, random_weights
from engine.engine import Engine

READY_SECONDS = 300.0
_EVERY = 0.005
_FRAME = 0.05  # seconds; more than a frame takes


@contextmanager
def loaded(model: str | Path, device: str, **options: Any) -> Iterator[Engine]:
    """Load an engine; close it at the end. `random_weights` and `natural_turns` say what a random release does.

    options: of `Engine.load`.
    """
    with random_weights(model), natural_turns(model):
        engine = Engine.load(model, device, **options)
        try:
            yield engine
        finally:
            engine.close()


def wait_until_ready(engine: Engine, seconds: float = READY_SECONDS) -> float:
    """Wait until an idle engine has captured all graphs, of frames and of decoding. Returns the seconds that it took.

    Raises TimeoutError.
    """
    began = time.perf_counter()
    while not is_ready(engine):
        if time.perf_counter() - began > seconds:
            raise TimeoutError(f"the engine has not captured its graphs in {seconds:.0f} s")
        time.sleep(_EVERY)
    return time.perf_counter() - began


def wait_for_frame() -> None:
    """Wait for the frame that may be in progress after a cancelled request, which must not delay the next one."""
    time.sleep(_FRAME)


def is_ready(engine: Engine) -> bool:
    """Return whether an engine is idle and no graph is missing."""
    loop, codec = engine._pipeline.loop, engine._pipeline.codec_worker._batches
    # The loop is idle once it has captured its graphs.
    return loop.idle_work._idle and not any(map(codec._graphs.is_missing, codec._sizes()))
