"""A model that nobody uses is unloaded, and whoever comes next waits for it: no call is lost."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine import Engine, SpeakOptions
from engine.errors import DoesNotFit, EngineBusy, EngineClosed
from engine.sentences import Sentence
from engine.serving.memory import release_memory
from studio.engines.model_manager import IdleUnload, ModelCatalog, ModelLoading, ModelManager
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine, voice
from tests.support.waiting import until

MINUTE = 60.0


class Garage:
    """Engines that come and go."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loaded: list[str] = []
        self.closed: list[FakeEngine] = []
        self.released = 0
        self.during: Callable[[], Any] = lambda: None  # while an engine is loaded
        self.closing: Callable[[], Any] = lambda: None  # while one is closed

    def load(self, model: str, report: Callable[[str, float], None]) -> FakeEngine:
        self.loaded.append(model)
        report("Reading", 0.5)
        self.during()
        return self.made()

    def made(self) -> FakeEngine:
        engine = FakeEngine()

        def close() -> None:
            self.closing()
            self.closed.append(engine)

        engine.close = close  # type: ignore[method-assign]
        return engine

    def release(self) -> None:
        self.released += 1

    def manager(self, catalog: ModelCatalog | None = None) -> ModelManager:
        idle = IdleUnload(10 * MINUTE, "small", self.load, self.release)  # type: ignore[arg-type]
        return ModelManager(self.made(), catalog, idle=idle, patience=0.2, clock=self.clock)  # type: ignore[arg-type]

    def asleep(self, catalog: ModelCatalog | None = None) -> ModelManager:
        manager = self.manager(catalog)
        self.clock.now += 10 * MINUTE
        assert manager.unload_idle()
        return manager


@pytest.fixture
def garage() -> Garage:
    return Garage()


def test_it_is_unloaded_after_minutes_without_use_and_loaded_by_the_next_call(garage: Garage) -> None:
    manager = garage.manager()
    assert manager.idle_seconds == 10 * MINUTE
    garage.clock.now += 9 * MINUTE
    assert not manager.unload_idle()
    list(manager.speak("Hello."))
    garage.clock.now += 9 * MINUTE
    assert not manager.unload_idle(), "it was used nine minutes ago"
    garage.clock.now += MINUTE
    assert manager.unload_idle()
    assert (manager.asleep, len(garage.closed), garage.released, garage.loaded) == (True, 1, 1, [])
    assert not manager.unload_idle(), "there is nothing left to unload"
    assert (manager.name, manager.slots, manager.status().speaking) == ("fake", 1, 0), "what it is, is still shown"
    manager.check_loaded()
    manager.forget(voice("Anna"))
    assert garage.loaded == [], "looking does not load it"
    seen: list[ModelLoading | None] = []
    garage.during = lambda: seen.append(manager.loading)
    assert list(manager.speak("Hello again."))
    assert (garage.loaded, seen) == (["small"], [ModelLoading("fake", 0.5)])
    assert (manager.asleep, manager.loading) == (False, None)
    assert not manager.unload_idle(), "it was just used"


def test_speech_under_way_keeps_it_loaded(garage: Garage) -> None:
    manager = garage.manager()
    speech = manager.speak("A long text. " * 5)
    next(speech)
    garage.clock.now += 60 * MINUTE
    assert not manager.unload_idle()
    list(speech)
    assert not manager.unload_idle(), "the time runs from its end"
    garage.clock.now += 10 * MINUTE
    assert manager.unload_idle()


def test_all_who_come_while_it_is_unloaded_are_served_by_one_load(garage: Garage) -> None:
    manager = garage.manager()
    garage.clock.now += 10 * MINUTE
    leaving, go_on = threading.Event(), threading.Event()
    garage.closing = lambda: (leaving.set(), go_on.wait())
    order: list[str] = []
    garage.during = lambda: order.append(f"loaded with {len(garage.closed)} closed")
    with ThreadPoolExecutor(9) as threads:
        unloading = threads.submit(manager.unload_idle)
        leaving.wait()
        calls = [threads.submit(lambda: len(list(manager.speak("Hello.")))) for _ in range(8)]
        until(lambda: manager.loading is not None)
        go_on.set()
        assert unloading.result()
        assert all(call.result() for call in calls)
    assert order == ["loaded with 1 closed"], "once, and only when the memory of the one before is free"


def test_what_prevents_loading_is_told_to_all_who_wait_and_tried_again_by_the_next(garage: Garage) -> None:
    manager = garage.asleep()
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        go_on.wait()
        raise DoesNotFit("It does not fit.")

    garage.during = fail
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(manager.reencode, voice("Anna"))
        begun.wait()
        waking = manager._waking
        assert waking is not None
        second = threads.submit(waking.result)
        go_on.set()
        for call in (first, second):
            with pytest.raises(DoesNotFit):
                call.result()
    assert manager.asleep
    garage.during = lambda: None
    assert manager.reencode(voice("Anna")).codec_fingerprint == "fake-1"


def test_another_model_is_loaded_in_place_of_one_that_sleeps(garage: Garage) -> None:
    choice = ModelCatalog({"small": Sentence(""), "large": Sentence("")}, lambda *_: None, garage.load)  # type: ignore[arg-type]
    manager = garage.asleep(choice)
    manager.switch("large")
    assert (garage.loaded, manager.asleep) == (["large"], False)
    garage.clock.now += 10 * MINUTE
    assert manager.unload_idle()

    def switch() -> None:
        with pytest.raises(EngineBusy):
            manager.switch("small")

    garage.during = switch
    list(manager.speak("Hello."))
    assert garage.loaded == ["large", "large"], "the one that was there comes back"


def test_a_closed_manager_loads_nothing(garage: Garage) -> None:
    manager = garage.asleep()
    manager.close()
    with pytest.raises(EngineClosed):
        manager.speak("Hello.")
    manager = garage.asleep()
    garage.during = manager.close
    with pytest.raises(EngineClosed):
        manager.speak("Hello.")
    assert len(garage.closed) == 3, "also the one that came too late"


def test_the_bundled_model_says_the_same_after_it_was_unloaded(
    bundled_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled_engine, "close", lambda: None)  # other tests go on with it
    clock = Clock()
    idle = IdleUnload(MINUTE, "bundled", lambda model, _: Engine.load(model, "cpu", slots=2), release_memory)
    manager = ModelManager(bundled_engine, idle=idle, clock=clock)

    def said() -> np.ndarray:
        return np.concatenate([chunk.samples for chunk in manager.speak("Yes.", None, SpeakOptions(seed=3))])

    before = said()
    clock.now += MINUTE
    assert manager.unload_idle()
    assert np.array_equal(said(), before)
    manager.close()
