"""The stream from which the next turn of a take is decoded."""

import numpy as np
import torch
from numpy.typing import NDArray

from engine.request.codec_continuation import RESTORED_FRAMES, CodecContinuation
from engine.serving.clips.speaker_adaptations import SpeakerAdaptation
from engine.serving.codec_worker import CodecStream, CodecWorker

ANN, BEN = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6]])


class RecordingWorker(CodecWorker):
    """A worker that decodes nothing. primed: streams with the codes that would be decoded."""

    def __init__(self) -> None:
        self.primed: list[tuple[CodecStream, list[int]]] = []
        self.contexts: dict[bytes, CodecStream] = {}

    def context_stream(self, codes: NDArray[np.int64]) -> CodecStream:
        return self.contexts.setdefault(codes.tobytes(), CodecStream())

    def prime(self, stream: CodecStream, codes: NDArray[np.int64]) -> None:
        self.primed.append((stream, codes[0].tolist()))


def codes(first: int, length: int) -> NDArray[np.int64]:
    return np.arange(first, first + length)[None]


def test_turn_continues_from_the_last_one_with_an_equal_context_only() -> None:
    worker = RecordingWorker()
    take = CodecContinuation(worker)
    first = take.next_stream(ANN, None, None)
    assert (first.previous, first.plays_after) == (worker.context_stream(ANN.numpy()), None)
    take.accept(first, codes(0, 9), ANN, must_restore=False)
    second = take.next_stream(ANN.clone(), None, None)
    assert second.previous is first
    other = take.next_stream(BEN, None, None)
    assert (other.previous, other.plays_after) == (worker.context_stream(BEN.numpy()), first)
    assert take.next_stream(None, None, None).previous is None
    assert not worker.primed


def test_state_is_restored_from_the_last_frames_of_the_context() -> None:
    worker, adaptation = RecordingWorker(), SpeakerAdaptation.__new__(SpeakerAdaptation)
    take = CodecContinuation(worker)
    take.accept(None, codes(0, RESTORED_FRAMES), ANN, must_restore=True)
    take.accept(None, codes(0, 0), ANN, must_restore=True)
    take.accept(None, codes(100, 9), ANN, must_restore=True)
    following = take.next_stream(ANN, None, adaptation)
    ((restored, decoded),) = worker.primed
    assert decoded == [*range(9, RESTORED_FRAMES), *range(100, 109)]
    assert (restored.previous, restored.adaptation) == (worker.context_stream(ANN.numpy()), adaptation)
    assert (following.previous, following.adaptation) == (restored, None)
    assert take.next_stream(ANN, None, adaptation).previous is restored
    assert len(worker.primed) == 1, "it is restored once"
    take.accept(None, codes(200, 9), BEN, must_restore=True)
    take.next_stream(BEN, None, None)
    assert worker.primed[1][1] == [*range(200, 209)]
