"""An idle model is unloaded, and the next call loads it again; no call is lost."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineStatus, SpeakOptions
from engine.errors import DoesNotFit, EngineBusy, EngineClosed
from engine.messages import UserMessage
from engine.request import turns
from engine.voice import BuiltInVoice
from studio.engines.forgotten_voices import KEPT, READ_WITHIN
from studio.engines.idle_unloader import IdleUnload
from studio.engines.model_manager import ModelManager
from studio.engines.model_switch import ModelCatalog, ModelLoading
from tests.paths import MINIATURE
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine, voice
from tests.support.waiting import until

MINUTE = 60.0


class EngineFactory:
    """Creates engines and records which are loaded and closed."""

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
        return self.create()

    def create(self) -> FakeEngine:
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
        return ModelManager(self.create(), catalog, idle=idle, switch_timeout=0.2, clock=self.clock)  # type: ignore[arg-type]

    def unloaded_manager(self, catalog: ModelCatalog | None = None) -> ModelManager:
        manager = self.manager(catalog)
        self.clock.now += 10 * MINUTE
        assert manager.unload_idle()
        return manager


@pytest.fixture
def factory() -> EngineFactory:
    return EngineFactory()


def test_idle_model_is_unloaded_and_loaded_by_the_next_call(
    factory: EngineFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = factory.manager()
    assert manager.idle_seconds == 10 * MINUTE
    factory.clock.now += 9 * MINUTE
    assert not manager.unload_idle()
    list(manager.speak("Hello."))
    factory.clock.now += 9 * MINUTE
    assert not manager.unload_idle(), "it was last used nine minutes ago"
    factory.clock.now += MINUTE
    last = EngineStatus(1, 2, 3, "off", "fp32", 4096, (5, 6), 7)
    with monkeypatch.context() as patched:
        patched.setattr(FakeEngine, "status", lambda _engine: last)
        assert manager.unload_idle()
    assert (manager.asleep, len(factory.closed), factory.released, factory.loaded) == (True, 1, 1, [])
    assert not manager.unload_idle(), "there is nothing left to unload"
    assert (manager.info.name, manager.info.slots) == ("fake", 1), "its properties stay available"
    assert manager.status() == EngineStatus(0, 0, 3, "off", "fp32", 4096, (0, 0), None)
    manager.check_loaded()
    manager.forget(voice("Anna"))
    manager.prepare(voice("Anna"))
    assert factory.loaded == [], "reading properties does not load it"
    seen: list[ModelLoading | None] = []
    factory.during = lambda: seen.append(manager.loading)
    assert list(manager.speak("Hello again."))
    assert (factory.loaded, seen) == (["small"], [ModelLoading("fake", 0.5)])
    assert (manager.asleep, manager.loading) == (False, None)
    assert not manager.unload_idle(), "it was just used"


def test_speech_in_progress_prevents_unloading(factory: EngineFactory) -> None:
    manager = factory.manager()
    speech = manager.speak("A long text. " * 5)
    next(speech)
    factory.clock.now += 60 * MINUTE
    assert not manager.unload_idle()
    list(speech)
    assert not manager.unload_idle(), "the idle time begins at the end of the speech"
    factory.clock.now += 10 * MINUTE
    assert manager.unload_idle()


def test_concurrent_calls_during_unloading_share_one_load(factory: EngineFactory) -> None:
    manager = factory.manager()
    factory.clock.now += 10 * MINUTE
    leaving, go_on = threading.Event(), threading.Event()
    factory.closing = lambda: (leaving.set(), go_on.wait())
    order: list[str] = []
    factory.during = lambda: order.append(f"loaded with {len(factory.closed)} closed")
    with ThreadPoolExecutor(9) as threads:
        unloading = threads.submit(manager.unload_idle)
        leaving.wait()
        calls = [threads.submit(lambda: len(list(manager.speak("Hello.")))) for _ in range(8)]
        until(lambda: manager.loading is not None)
        go_on.set()
        assert unloading.result()
        assert all(call.result() for call in calls)
    assert order == ["loaded with 1 closed"], "it is loaded once, after the previous engine is closed"


def test_load_error_reaches_all_waiting_calls_and_is_retried(factory: EngineFactory) -> None:
    manager = factory.unloaded_manager()
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        go_on.wait()
        raise DoesNotFit("It does not fit.")

    factory.during = fail
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(manager.reencode, voice("Anna"))
        begun.wait()
        assert manager._idle is not None
        waking = manager._idle._waking
        assert waking is not None
        second = threads.submit(waking.result)
        go_on.set()
        for call in (first, second):
            with pytest.raises(DoesNotFit):
                call.result()
    assert manager.asleep
    factory.during = lambda: None
    assert manager.reencode(voice("Anna")).codec_fingerprint == "fake-1"


def test_switch_loads_another_model_instead_of_the_unloaded_one(factory: EngineFactory) -> None:
    choice = ModelCatalog({"small": UserMessage(""), "large": UserMessage("")}, lambda *_: None, factory.load)  # type: ignore[arg-type]
    manager = factory.unloaded_manager(choice)
    manager.switch("large")
    assert (factory.loaded, manager.asleep) == (["large"], False)
    factory.clock.now += 10 * MINUTE
    assert manager.unload_idle()

    def switch() -> None:
        with pytest.raises(EngineBusy):
            manager.switch("small")

    factory.during = switch
    list(manager.speak("Hello."))
    assert factory.loaded == ["large", "large"], "the same model is loaded again"


def test_closed_manager_loads_nothing(factory: EngineFactory) -> None:
    manager = factory.unloaded_manager()
    manager.close()
    with pytest.raises(EngineClosed):
        manager.speak("Hello.")
    manager = factory.unloaded_manager()
    factory.during = manager.close
    with pytest.raises(EngineClosed):
        manager.speak("Hello.")
    assert len(factory.closed) == 3, "an engine loaded after closing is closed too"


def test_voice_deleted_while_the_model_is_loaded_for_its_speech_is_forgotten(factory: EngineFactory) -> None:
    """The voice was read before, so the engine caches it, and was told nothing of the deletion."""
    manager = factory.unloaded_manager()
    anna, ben = voice("Anna"), voice("Ben", seconds=1.0)
    factory.during = lambda: manager.forget(anna)
    speech = manager.speak("Hello.", [ben, replace(anna)])
    engine = manager._current.engine
    assert isinstance(engine, FakeEngine)
    assert engine.forgotten == ["Anna"]
    speech.close()
    manager.speak("Hello.", ben).close()
    manager.speak("Hello.", BuiltInVoice("anna")).close()
    assert engine.forgotten == ["Anna"]
    manager.speak("Hello.", anna).close()  # may have been read before, too
    assert engine.forgotten == ["Anna", "Anna"]
    factory.clock.now += READ_WITHIN + 1
    manager.speak("Hello.", anna).close()
    assert engine.forgotten == ["Anna", "Anna"], "a voice that was restored is cached"
    factory.clock.now += KEPT
    manager.forget(ben)
    assert len(manager._forgotten._forgotten) == 1, "old ones are dropped"


def test_output_is_the_same_after_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "frame_budget", lambda *_: 12)  # random weights rarely end by themselves
    clock = Clock()

    def load(*_: object) -> Engine:
        return Engine.load(MINIATURE, "cpu", slots=1, graphs="off")

    manager = ModelManager(load(), idle=IdleUnload(MINUTE, "miniature", load, lambda: None), clock=clock)

    def speak() -> np.ndarray:
        take = np.zeros(0, np.float32)
        for chunk in manager.speak("Yes.", None, SpeakOptions(seed=3)):  # a second attempt replaces the first
            take = np.concatenate([take[: chunk.start], chunk.samples])
        return take

    before = speak()
    clock.now += MINUTE
    assert manager.unload_idle()
    np.testing.assert_allclose(speak(), before, atol=1e-4)
    manager.close()
