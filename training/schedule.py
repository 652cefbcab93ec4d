"""The learning rate of all trainings of the bundled model, as a fraction of its peak."""

import math


def warmup_cosine(step: int, warmup_steps: int, progress: float, final: float = 0.0) -> float:
    """Return the rate of a step: linear warm-up, times a cosine over the whole run.

    Args:
        step: number of the step, from 0.
        progress: completed fraction of the run; 1 and more give the final rate.
        final: the rate at the end.
    """
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return min(1.0, (step + 1) / warmup_steps) * (final + (1 - final) * cosine)
