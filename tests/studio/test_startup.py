"""Garbage collections around the start of a server."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from engine.serving.memory import release_memory
from studio.startup import pause_collections, resume_collections


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collections() -> Iterator[None]:
    yield
    gc.enable()


def test_collections_pause_and_then_skip_existing_objects() -> None:
    pause_collections()
    assert not gc.isenabled()
    before = gc.get_freeze_count()
    loaded = Cycle()
    resume_collections()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    assert loaded not in gc.get_objects()


def test_model_loaded_before_the_resumption_is_released() -> None:
    model, kept = Cycle(), Cycle()
    gone = weakref.ref(model)
    resume_collections()
    del model
    gc.collect()
    assert gone() is not None
    release_memory()
    assert gone() is None
    assert kept not in gc.get_objects(), "the others are excluded again"
