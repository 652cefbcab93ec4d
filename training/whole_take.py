"""The samples of a whole take."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from engine.outputs import AudioChunk


def whole_take(chunks: Iterable[AudioChunk]) -> NDArray[np.float32]:
    """Join a speech's chunks → samples `[n]`, where segments that were spoken again replace their first attempts."""
    whole = np.zeros(0, dtype=np.float32)
    for chunk in chunks:
        whole = np.concatenate([whole[: chunk.start], chunk.samples])
    return whole
