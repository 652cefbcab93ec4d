"""Garbage collections around the start of a server."""

import gc
import weakref

import pytest

from engine.serving.device import release_memory
from studio.startup import exclude_loaded_objects, paused_collections


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def is_tracked(found: object) -> bool:
    return any(each is found for each in gc.get_objects())


def test_collections_pause_and_then_skip_existing_objects() -> None:
    with paused_collections():
        assert not gc.isenabled()
        loaded = Cycle()
        assert is_tracked(loaded)
        exclude_loaded_objects()
        assert gc.isenabled()
        assert not is_tracked(loaded)


def test_failed_start_resumes_collections() -> None:
    with pytest.raises(OSError, match="no start"), paused_collections():
        raise OSError("no start")
    assert gc.isenabled()


def test_model_loaded_before_the_resumption_is_released() -> None:
    model, kept = Cycle(), Cycle()
    gone = weakref.ref(model)
    exclude_loaded_objects()
    del model
    gc.collect()
    assert gone() is not None
    release_memory()
    assert gone() is None
    assert not is_tracked(kept), "the others are excluded again"
