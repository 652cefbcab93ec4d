"""Clips are embedded once; forgotten clips and released encoders leave nothing behind."""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor

from engine.serving.clips.speaker_embeddings import SpeakerEmbeddings


class FakeEncoder:
    """An encoder whose embedding is the first sample. Counts its clips."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.clips, self._during = 0, during

    def embed(self, samples: Tensor) -> Tensor:
        self.clips += 1
        self._during()
        return samples[:1]


def decode(clip: bytes) -> Tensor:
    return torch.tensor(list(clip))


def test_a_clip_is_embedded_once() -> None:
    fake = FakeEncoder()
    embeddings = SpeakerEmbeddings(lambda: fake)
    for clip, runs in ((b"a", 1), (b"b", 2), (b"a", 2)):
        found = embeddings.embed(clip, decode)
        assert found is not None
        assert found.tolist() == [clip[0]]
        assert fake.clips == runs
    embeddings.forget(b"a")
    embeddings.embed(b"b", decode)
    embeddings.embed(b"a", decode)
    assert fake.clips == 3


def test_a_clip_that_is_forgotten_while_it_is_embedded_is_not_cached() -> None:
    forgets = iter([lambda: embeddings.forget(b"a")])
    fake = FakeEncoder(lambda: next(forgets, lambda: None)())
    embeddings: SpeakerEmbeddings = SpeakerEmbeddings(lambda: fake)
    for runs in (1, 2, 2):
        assert embeddings.embed(b"a", decode) is not None
        assert fake.clips == runs


def test_a_released_encoder_is_freed_and_loaded_again() -> None:
    made: list[weakref.ref[FakeEncoder]] = []

    def load() -> FakeEncoder:
        fake = FakeEncoder()
        made.append(weakref.ref(fake))
        return fake

    embeddings = SpeakerEmbeddings(load)
    embeddings.embed(b"a", decode)
    embeddings.release()
    assert made[0]() is None
    embeddings.embed(b"a", decode)  # cached: needs no encoder
    assert len(made) == 1
    embeddings.embed(b"b", decode)
    embeddings.embed(b"c", decode)
    assert len(made) == 2


def test_a_model_without_an_encoder_is_asked_once() -> None:
    loads: list[None] = []
    embeddings = SpeakerEmbeddings(lambda: loads.append(None))
    assert embeddings.embed(b"a", decode) is None
    assert embeddings.embed(b"b", decode) is None
    assert len(loads) == 1
