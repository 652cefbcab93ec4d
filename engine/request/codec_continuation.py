"""The codec's state from one turn of a take to the next."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.serving.clips.speaker_adaptations import SpeakerAdaptation
from engine.serving.codec_worker import CodecStream, CodecWorker

# Last frames that are decoded again to restore the codec's state. With 32, the bundled model's audio differs by -85 dB.
RESTORED_FRAMES = 64


class CodecContinuation:
    """The codec's state after the accepted turns of a take, from which the next turn is decoded.

    A turn continues from turns with an equal codec context (`Prompt.codec_context`), or else begins after its context.
    """

    def __init__(self, worker: CodecWorker) -> None:
        self._worker = worker
        self._stream: CodecStream | None = None  # of the last accepted turn
        self._context: Tensor | None = None  # of its prompt
        self._last_codes: NDArray[np.int64] | None = None  # the last ones of the accepted turns after it `[K, T]`
        self._must_restore = False

    def accept(
        self, stream: CodecStream | None, codes: NDArray[np.int64], context: Tensor | None, *, must_restore: bool
    ) -> None:
        """Continue after a turn with these codes `[K, T]`.

        must_restore: whether `stream` is not in the state after them, and is restored by decoding the last ones again.
        """
        if not _is_same(self._context, context):
            self._context, self._last_codes = context, None
        if codes.size:
            joined = codes if self._last_codes is None else np.hstack((self._last_codes, codes))
            self._last_codes = joined[:, -RESTORED_FRAMES:]
        self._stream, self._must_restore = stream, must_restore

    def next_stream(
        self, context: Tensor | None, adaptation: SpeakerAdaptation | None, last: SpeakerAdaptation | None
    ) -> CodecStream:
        """Create the stream of a turn. adaptation: to its speaker. last: to that of the last accepted turn."""
        continues = _is_same(self._context, context)
        if continues and self._must_restore:
            self._restore(last)
        previous = self._stream if continues else None
        return CodecStream(previous or self._after(context), self._stream, adaptation)

    def _restore(self, adaptation: SpeakerAdaptation | None) -> None:
        self._must_restore = False
        if self._last_codes is not None:
            self._stream = CodecStream(self._after(self._context), self._stream, adaptation)
            self._worker.prime(self._stream, self._last_codes)

    def _after(self, context: Tensor | None) -> CodecStream | None:
        return None if context is None else self._worker.context_stream(context.numpy())


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two codec contexts are equal."""
    return one is other or (one is not None and other is not None and torch.equal(one, other))
