"""What it takes to find the periods of a signal, and to move them."""

import torch
import torch.nn.functional as F
from torch import Tensor

_NEARLY_HIGHEST = 0.9  # of the highest peak of a periodicity


def first_high_peak(periodicity: Tensor, *, spread: int) -> Tensor:
    """Return the index of the first peak that is nearly the highest, because multiples of the period match as well.

    Args:
        periodicity: `[…, L]` by lag.
        spread: lags after the first nearly highest value among which its peak is.

    Returns: int64 `[…]`.
    """
    best = periodicity.amax(-1, keepdim=True)
    climb = (periodicity > _NEARLY_HIGHEST * best).int().argmax(-1, keepdim=True)
    near = (climb + torch.arange(spread, device=climb.device)).clamp(max=periodicity.shape[-1] - 1)
    peak = periodicity.gather(-1, near).argmax(-1, keepdim=True)
    return near.gather(-1, peak)[..., 0]


def read_between(x: Tensor, places: Tensor) -> Tensor:
    """Read x `[B, n]`, or one signal `[1, n]` for all rows, at places `[B, m]` in 0 to n - 1.

    By cubic interpolation (Catmull and Rom, 1974).
    """
    left = places.long()
    t = places - left
    padded = F.pad(x[:, None], (1, 2), mode="replicate")[:, 0].expand(len(places), -1)
    a, b, c, d = (padded.gather(1, left + offset) for offset in range(4))
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
