"""The model manager: one engine at a time; takes in progress finish before another model is loaded."""

import gc
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from engine.errors import DoesNotFit, EngineBusy, EngineClosed, InvalidOption, ReleaseIncomplete
from engine.messages import UserMessage
from studio.engines.model_manager import ModelManager
from studio.engines.model_switch import ModelCatalog, ModelLoading
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import until

NOTICES = {"small": UserMessage("Free for all."), "large": UserMessage("For research only.")}


class EngineFactory:
    """Creates engines and records the calls."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.loaded: list[str] = []
        self.broken: set[str] = set()
        self.missing: set[str] = set()
        self.during: Callable[[], None] = lambda: None

    def fetch(self, model: str, report: Callable[[str, float], None]) -> None:
        report("Downloading", 0.5)
        self.fetched.append(model)
        if model in self.missing:
            raise ReleaseIncomplete("It could not be downloaded.")

    def load(self, model: str, report: Callable[[str, float], None]) -> FakeEngine:
        self.loaded.append(model)
        report("Loading", 0.25)
        self.during()
        if model in self.broken:
            raise DoesNotFit("It does not fit.")
        return create_engine(model)


def create_engine(model: str, **script: float) -> FakeEngine:
    engine = FakeEngine(Script(**script))  # type: ignore[arg-type]
    engine.name, engine.codec_fingerprint = model, f"codec of {model}"
    engine.notice = NOTICES.get(model, UserMessage(""))
    return engine


@pytest.fixture
def factory() -> EngineFactory:
    return EngineFactory()


@pytest.fixture
def engines(factory: EngineFactory) -> ModelManager:
    choice = ModelCatalog(NOTICES, factory.fetch, factory.load)  # type: ignore[arg-type]
    return ModelManager(create_engine("small"), choice, switch_timeout=0.2)  # type: ignore[arg-type]


def test_manager_delegates_to_the_engine() -> None:
    engine = create_engine("small")
    engines = ModelManager(engine)  # type: ignore[arg-type]
    assert engines.info == engine.info
    assert engines.reencode(voice("Anna")).codec_fingerprint == "codec of small" == engines.info.codec_fingerprint
    speech = engines.speak("Hello there.", owner="anna")
    chunks = list(speech)
    assert (speech.seed, engine.owners) == (7, ["anna"])
    assert speech.result is not None
    assert sum(len(chunk.samples) for chunk in chunks) == speech.result.frames * engine.frame_length


def test_switch_loads_another_model(engines: ModelManager, factory: EngineFactory) -> None:
    seen: list[object] = []
    factory.during = lambda: seen.append((engines.loading, engines.info.name, engines.status().speaking))
    assert engines.models == NOTICES
    engines.switch("large")
    assert (engines.info.name, engines.info.notice, engines.info.codec_fingerprint) == (
        "large",
        NOTICES["large"],
        "codec of large",
    )
    assert seen == [(ModelLoading("large", 0.25), "small", 0)], "the old model is shown until the new one is loaded"
    assert engines.loading is None
    assert list(engines.speak("Hello."))
    engines.switch("large")
    assert factory.loaded == ["large"], "it is already loaded"


def test_old_engine_is_freed_before_the_next_is_loaded(factory: EngineFactory) -> None:
    first = create_engine("small")
    gone = weakref.ref(first)
    engines = ModelManager(first, ModelCatalog(NOTICES, factory.fetch, factory.load))  # type: ignore[arg-type]
    del first
    list(engines.speak("Hello."))
    left: list[object] = []
    factory.during = lambda: left.append((gc.collect(), gone())[1])
    engines.switch("large")
    assert left == [None]


def test_switch_accepts_only_models_of_the_catalog(engines: ModelManager, factory: EngineFactory) -> None:
    for model in ("other", "", "../small"):
        with pytest.raises(InvalidOption):
            engines.switch(model)
    alone = ModelManager(create_engine("small"))  # type: ignore[arg-type]
    assert alone.models == {}
    with pytest.raises(InvalidOption):
        alone.switch("small")
    assert factory.fetched == factory.loaded == []


def test_switch_waits_for_takes_in_progress_and_rejects_new_ones(engines: ModelManager, factory: EngineFactory) -> None:
    engines._switch.timeout = 60
    speech = engines.speak("A long text. " * 5)
    next(speech)
    switching = threading.Thread(target=engines.switch, args=["large"])
    switching.start()
    with pytest.raises(EngineBusy, match="being loaded"):  # as soon as the other thread begins to switch
        [engines.speak("Me too.").close() for _ in iter(int, 1)]
    assert factory.loaded == []
    assert engines.info.name == "small"
    assert engines.loading == ModelLoading("large", waits=True)
    assert list(speech)[-1].segment == 4, "the first model speaks it to the end"
    switching.join()
    assert engines.info.name == "large"


@pytest.mark.parametrize("leave", ["close", "drop", "end", "fail"])
def test_ended_take_does_not_delay_a_switch(engines: ModelManager, leave: str) -> None:
    engine: Any = engines._current.engine
    engine.script.fail_after, engine.script.failure = (1, RuntimeError()) if leave == "fail" else (None, None)
    speech = engines.speak("A long text. " * 5)
    next(speech)
    if leave == "close":
        speech.close()
    elif leave != "drop":
        with suppress(RuntimeError):
            list(speech)
    if leave == "drop":
        del speech
    engines.switch("large")
    assert engines.info.name == "large"
    assert engines.speed._timings == set()


def test_endless_take_prevents_a_switch(engines: ModelManager, factory: EngineFactory) -> None:
    speech = engines.speak("Hello.")
    with pytest.raises(EngineBusy, match="still being spoken"):
        engines.switch("large")
    assert factory.loaded == []
    assert engines.loading is None
    assert list(speech)
    assert list(engines.speak("Hello again."))


def test_voice_deleted_while_a_switch_waits_is_forgotten(engines: ModelManager) -> None:
    """The switch may end without another model, and the engine would keep the voice in its caches."""
    engines._switch.timeout = 60
    engine = engines._current.engine
    assert isinstance(engine, FakeEngine)
    speech = engines.speak("A long text. " * 5)
    switching = threading.Thread(target=engines.switch, args=["large"])
    switching.start()
    until(lambda: engines.loading == ModelLoading("large", waits=True))
    engines.forget(voice("Anna"))
    assert engine.forgotten == ["Anna"]
    speech.close()
    switching.join()
    assert engines.info.name == "large"


def test_rejected_text_does_not_count_as_a_take(engines: ModelManager) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InvalidOption("No.")

    assert engines._current.engine is not None
    engines._current.engine.speak = refuse  # type: ignore[assignment, method-assign]
    with pytest.raises(InvalidOption):
        engines.speak("Hello.")
    engines.switch("large")


def test_concurrent_calls_are_rejected_during_a_switch(engines: ModelManager, factory: EngineFactory) -> None:
    refused: list[str] = []

    def another() -> None:
        for call in (lambda: engines.switch("large"), lambda: engines.speak("Hello."), lambda: engines.reencode(None)):  # type: ignore[arg-type]
            with pytest.raises(EngineBusy) as error:
                call()
            refused.append(str(error.value))

    factory.during = another
    engines.switch("large")
    assert len(refused) == 3


def test_failed_download_changes_nothing(engines: ModelManager, factory: EngineFactory) -> None:
    factory.missing = {"large"}
    with pytest.raises(ReleaseIncomplete):
        engines.switch("large")
    assert factory.loaded == []
    assert list(engines.speak("Hello.")), "the old model still speaks"


def test_failed_load_restores_the_previous_model(engines: ModelManager, factory: EngineFactory) -> None:
    factory.broken = {"large"}
    with pytest.raises(DoesNotFit):
        engines.switch("large")
    assert factory.loaded == ["large", "small"]
    assert engines.info.name == "small"
    assert list(engines.speak("Hello."))


def test_failed_load_is_freed_before_the_previous_model_is_loaded_again() -> None:
    """Both together may not fit into a GPU's memory."""
    failed: list[weakref.ref[FakeEngine]] = []
    left: list[object] = []

    def load(model: str, _report: Callable[[str, float], None]) -> FakeEngine:
        loaded = create_engine(model)
        if model == "small":
            left.append((gc.collect(), failed[0]())[1])
            return loaded
        failed.append(weakref.ref(loaded))
        try:
            raise MemoryError
        except MemoryError as error:
            raise DoesNotFit("It does not fit.") from error

    engines = ModelManager(create_engine("small"), ModelCatalog(NOTICES, lambda *_: None, load))  # type: ignore[arg-type]
    with pytest.raises(DoesNotFit):
        engines.switch("large")
    assert left == [None]


def test_switch_can_be_repeated_after_both_loads_fail(engines: ModelManager, factory: EngineFactory) -> None:
    factory.broken = {"large", "small"}
    with pytest.raises(DoesNotFit):
        engines.switch("large")
    assert engines.info.name == "small", "the page still shows a model"
    with pytest.raises(EngineClosed, match="No model"):
        engines.speak("Hello.")
    factory.broken = set()
    engines.switch("small")
    assert list(engines.speak("Hello."))


def test_engine_that_has_stopped_is_reported_and_can_be_loaded_again(
    engines: ModelManager, factory: EngineFactory
) -> None:
    engines.check_loaded()
    engine = engines._current.engine
    assert isinstance(engine, FakeEngine)
    engine.failure = EngineClosed()
    with pytest.raises(EngineClosed):
        engines.check_loaded()
    engines.switch("small")
    engines.check_loaded()
    assert factory.loaded == ["small"]


def test_close_closes_the_current_engine_once(engines: ModelManager) -> None:
    engines.switch("large")
    closed: list[bool] = []
    assert engines._current.engine is not None
    engines._current.engine.close = lambda: closed.append(True)  # type: ignore[method-assign]
    engines.close()
    engines.close()
    assert closed == [True]


@pytest.mark.parametrize("broken", [set(), {"large"}], ids=["loaded", "previous one loaded again"])
def test_an_engine_loaded_after_closing_is_closed(
    engines: ModelManager, factory: EngineFactory, broken: set[str]
) -> None:
    closed: list[str] = []
    load = factory.load

    def noted(model: str, report: Callable[[str, float], None]) -> FakeEngine:
        engine = load(model, report)
        if factory.loaded[-1] not in broken and len(factory.loaded) == len(broken) + 1:
            engines.close()
        engine.close = lambda: closed.append(model)  # type: ignore[method-assign]
        return engine

    factory.broken = broken
    engines._switch.catalog = ModelCatalog(NOTICES, factory.fetch, noted)  # type: ignore[arg-type]
    with pytest.raises(DoesNotFit if broken else EngineClosed):
        engines.switch("large")
    assert closed == [factory.loaded[-1]]
    assert engines._current.engine is None
    with pytest.raises(EngineClosed):
        engines.switch("large")
    assert len(factory.loaded) == len(broken) + 1, "nothing is loaded any more"


def test_closing_ends_the_wait_of_a_switch(engines: ModelManager, factory: EngineFactory) -> None:
    engines._switch.timeout = 60
    speech = engines.speak("A long text. " * 5)
    next(speech)
    errors: list[Exception] = []

    def switch() -> None:
        try:
            engines.switch("large")
        except EngineClosed as error:
            errors.append(error)

    switching = threading.Thread(target=switch)
    switching.start()
    until(lambda: engines.loading == ModelLoading("large", waits=True))
    engines.close()
    switching.join(30)
    assert (len(errors), factory.loaded) == (1, [])
