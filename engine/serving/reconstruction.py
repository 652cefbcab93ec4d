"""Codes to sound outside of any take, between the pieces of whoever speaks."""

from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineFailed, RepriseError, first_line
from engine.serving.codec_worker import Decoding, Line, Samples

# Frames at a time: short enough that takes that are being spoken wait for no longer than for each other.
_PIECE = 16


def decode_apart(decoding: Decoding, codes: NDArray[np.int64]) -> Samples:
    """All the sound of codes `[K, T]`, T ≥ 1, as a line of its own that begins with a fresh state: float32 `[n]`.

    Waits for it; from any thread but the decoding's own. Raises EngineClosed, EngineFailed.
    """
    line, heard = Line(), SimpleQueue[Samples | Exception]()
    pieces = [codes[:, at : at + _PIECE] for at in range(0, codes.shape[1], _PIECE)]
    for piece in pieces:
        decoding.submit(line, piece, heard.put)
    decoding.end(line)
    try:
        return np.concatenate([_sound(heard.get()) for _ in pieces])
    finally:
        decoding.drop(line)  # whatever is left of it when a piece failed


def _sound(heard: Samples | Exception) -> Samples:
    if not isinstance(heard, Exception):
        return heard
    if isinstance(heard, RepriseError):
        raise heard
    raise EngineFailed(f"The codec could not turn this clip into sound again: {first_line(heard)}") from heard
