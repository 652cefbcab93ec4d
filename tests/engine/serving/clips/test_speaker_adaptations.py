"""What is learned from a clip is learned once, by all threads together; forgotten clips leave nothing behind."""

import threading
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.codec.postfilter import Postfilter
from engine.errors import EngineClosed, UnusableReference
from engine.serving.clips.speaker_adaptations import SpeakerAdaptations
from engine.serving.codec_worker import CodecWorker, Samples

RATE, FRAME = 22_050, 1024
CODES = np.zeros((9, 60), np.int64)


def sound(f0: float, frames: int) -> Tensor:
    time = torch.arange(frames * FRAME) / RATE
    tones = [torch.sin(2 * np.pi * k * f0 * time) / k for k in range(1, 12)]
    return 0.1 * torch.stack(tones).sum(0)


class FakeWorker:
    """Decodes all codes to a sound of 120 Hz. Counts."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.frames: list[int] = []
        self._during = during

    def decode(self, codes: NDArray[np.int64], *, filtered: bool) -> Samples:
        assert not filtered
        self.frames.append(codes.shape[1])
        self._during()
        return sound(120, codes.shape[1]).numpy()


def decode(clip: bytes) -> Tensor:
    """Decode a clip whose file is its pitch in Hz."""
    if clip == b"damaged":
        raise UnusableReference("reference.not_flac")
    return sound(float(clip), 60)


@pytest.fixture(scope="module")
def postfilter() -> Postfilter:
    return Postfilter(RATE, FRAME)


def adaptations(worker: FakeWorker, postfilter: Postfilter) -> SpeakerAdaptations:
    return SpeakerAdaptations(cast(CodecWorker, worker), postfilter)


def test_a_clip_is_learned_from_once(postfilter: Postfilter) -> None:
    worker = FakeWorker()
    learned = adaptations(worker, postfilter)
    low = learned.adaptation_for(b"110", CODES, decode)
    assert low is not None
    assert low.pitch == pytest.approx(110 / 120, rel=0.01)
    assert learned.adaptation_for(b"110", CODES, decode) is low
    assert learned.adaptation_for(b"130", CODES, decode) is not low
    assert learned.adaptation_for(b"110", CODES + 1, decode) is not low
    assert len(worker.frames) == 3
    learned.forget(b"110", CODES)
    assert learned.adaptation_for(b"110", CODES, decode) is not low


def test_only_the_beginning_is_decoded(postfilter: Postfilter) -> None:
    worker = FakeWorker()
    adaptations(worker, postfilter).adaptation_for(b"110", np.zeros((9, 500), np.int64), decode)
    assert worker.frames == [postfilter.frames_learned]


def test_threads_share_what_one_of_them_learns(postfilter: Postfilter) -> None:
    inside, gate = threading.Event(), threading.Event()

    def during() -> None:
        inside.set()
        assert gate.wait(10)

    worker = FakeWorker(during)
    learned = adaptations(worker, postfilter)
    learned.learn_ahead(b"110", CODES, decode)
    assert inside.wait(10)
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(learned.adaptation_for(b"110", CODES, decode))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert len(worker.frames) == 1


def busy(postfilter: Postfilter) -> tuple[SpeakerAdaptations, list[bytes], threading.Event]:
    """Return adaptations that learn ahead from a first clip until the event is set, and the clips that are decoded."""
    inside, gate, clips = threading.Event(), threading.Event(), []

    def counted(clip: bytes) -> Tensor:
        clips.append(clip)
        inside.set()
        assert gate.wait(10)
        return decode(clip)

    learned = adaptations(FakeWorker(), postfilter)
    for clip in (b"100", b"101", b"102", b"103", b"102", b"104", b"105", b"100"):
        learned.learn_ahead(clip, CODES, counted)
        assert inside.wait(10)
    return learned, clips, gate


def test_the_last_clips_are_learned_from_ahead_once_and_first(postfilter: Postfilter) -> None:
    learned, clips, gate = busy(postfilter)
    assert learned._ahead._work_queue.qsize() == 4  # not one for each clip that has ever waited
    learned.forget(b"104", CODES)
    gate.set()
    learned._ahead.shutdown(wait=True)
    assert clips == [b"100", b"105", b"103", b"102"]


def test_nothing_is_learned_ahead_after_closing(postfilter: Postfilter) -> None:
    learned, clips, gate = busy(postfilter)
    learned.close()
    gate.set()
    learned._ahead.shutdown(wait=True)
    learned.learn_ahead(b"130", CODES, decode)
    assert clips == [b"100"]


def test_a_clip_that_is_forgotten_meanwhile_is_not_cached(postfilter: Postfilter) -> None:
    forgets = iter([lambda: learned.forget(b"110", CODES)])
    worker = FakeWorker(lambda: next(forgets, lambda: None)())
    learned: SpeakerAdaptations = adaptations(worker, postfilter)
    for runs in (1, 2, 2):
        assert learned.adaptation_for(b"110", CODES, decode) is not None
        assert len(worker.frames) == runs


def test_a_damaged_clip_is_not_learned_from_and_not_tried_again(postfilter: Postfilter) -> None:
    worker, tries = FakeWorker(), []

    def counted(clip: bytes) -> Tensor:
        tries.append(clip)
        return decode(clip)

    learned = adaptations(worker, postfilter)
    assert learned.adaptation_for(b"damaged", CODES, counted) is None
    assert learned.adaptation_for(b"damaged", CODES, counted) is None
    assert tries == [b"damaged"]
    assert not worker.frames


def test_an_error_reaches_the_caller_and_is_not_cached(postfilter: Postfilter) -> None:
    failures = iter([EngineClosed()])

    def during() -> None:
        if (failure := next(failures, None)) is not None:
            raise failure

    learned = adaptations(FakeWorker(during), postfilter)
    with pytest.raises(EngineClosed):
        learned.adaptation_for(b"110", CODES, decode)
    assert learned.adaptation_for(b"110", CODES, decode) is not None
