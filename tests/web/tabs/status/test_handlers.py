"""Handlers of the Status tab, without a browser."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import DoesNotFit
from engine.messages import UserMessage
from storage import Storage
from studio.engines.model_switch import ModelCatalog, ModelLoading
from tests.support.fake_engine import FakeEngine
from tests.web.conftest import make_context
from web.context import WebContext
from web.tabs.status.handlers import StatusHandlers
from web.tabs.status.views import process_memory

NOTICES = {"fake": UserMessage("Free <for> all."), "large": UserMessage("For research only.")}


def request(session: str = "mine") -> Any:
    return SimpleNamespace(session_hash=session, headers={})


@pytest.fixture
def events(context: WebContext) -> StatusHandlers:
    return StatusHandlers(context)


@contextmanager
def queued_takes(context: WebContext, *sessions: str) -> Iterator[None]:
    """Register a take of each session, queued in this order."""
    with ExitStack() as takes:
        for place, session in enumerate(sessions):
            takes.enter_context(context.running.register(f"take {place}", session))
            speech: Any = SimpleNamespace(queue_position=place, cancel=lambda: None)
            context.running.attach(f"take {place}", speech)
        yield


@pytest.fixture
def two_models(engine: FakeEngine, storage: Storage, tmp_path: Path) -> WebContext:
    """A context that offers two models."""

    def load(model: str, _report: object) -> FakeEngine:
        if model == "large" and engine.notice == UserMessage("small machine"):
            raise DoesNotFit("It does not fit.")
        made = FakeEngine()
        made.name = model
        return made

    context = make_context(engine, storage, tmp_path)
    context.engine._switch.catalog = ModelCatalog(NOTICES, lambda *_: None, load)  # type: ignore[arg-type]
    return context


def test_status_describes_the_engine(events: StatusHandlers, engine: FakeEngine) -> None:
    state = events.show_status(request())
    assert (state["name"], state["device"], state["notice"]) == ("fake", "cpu", str(engine.notice))
    assert (state["precision"], state["graphs"]) == ("fp32", "off")
    assert (state["speaking"], state["slots"], state["waiting"]) == (0, 1, 0)
    assert (state["place"], state["wait"], state["factor"], state["loading"]) == (None, 0, None, None)
    assert (state["idle"], state["asleep"]) == (None, False)
    assert state["memory"] > 10_000_000
    assert state["device_memory"] is None, "a CPU has no device memory"
    assert state["uptime"] >= 0
    assert json.loads(json.dumps(state)) == state, "the state is JSON"


def test_takes_update_the_real_time_factor(events: StatusHandlers, context: WebContext) -> None:
    list(context.engine.speak("Hello there."))
    assert events.show_status(request())["factor"] > 0


def test_each_session_sees_only_its_own_place(events: StatusHandlers, context: WebContext) -> None:
    with queued_takes(context, "another", "mine", "another"):
        state = events.show_status(request())
        assert state["place"] == 2
        assert events.show_status(request("another"))["place"] == 1
        assert events.show_status(request("stranger"))["place"] is None
        assert "another" not in json.dumps(state)
    assert events.show_status(request())["place"] is None


def test_wait_is_estimated_for_each_session(events: StatusHandlers, context: WebContext) -> None:
    list(context.engine.speak("Hello there."))
    speeches = [context.engine.speak("Something longer. " * 9) for _ in range(3)]
    next(speeches[0])
    with queued_takes(context, "mine", "another"):
        mine, theirs, newcomers = (events.show_status(request(who))["wait"] for who in ("mine", "another", "new"))
    assert 0 < mine < theirs < newcomers
    for speech in speeches:
        speech.close()


def test_loading_model_is_shown(events: StatusHandlers, context: WebContext) -> None:
    context.engine._switch.loading = ModelLoading("large", waits=True)
    assert events.show_status(request())["loading"] == {"name": "large", "waits": True, "done": 0.0}
    context.engine._switch.loading = ModelLoading("large", 0.6)
    assert events.show_status(request())["loading"] == {"name": "large", "waits": False, "done": 0.6}


def test_process_memory_has_a_fallback_without_proc(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("10 7 3", "ascii")
    assert process_memory(tmp_path / "statm") == 7 * 4096
    assert process_memory(tmp_path / "nothing") > 10_000_000


# --- another model


def test_licence_is_shown_before_loading(two_models: WebContext) -> None:
    events = StatusHandlers(two_models)
    assert events.show_licence("large", request()) == '<p class="rp-licence">For research only.</p>'
    assert "Free &lt;for&gt; all." in events.show_licence("fake", request())
    assert [events.show_licence(wrong, request()) for wrong in ("other", None, 7, [])] == [""] * 4
    picked, licence = events.list_models(request())
    assert licence == events.show_licence("fake", request())
    assert ([name for name, _ in picked.choices], picked.value) == (["fake", "large"], "fake")


def test_loading_a_model_changes_the_page(two_models: WebContext) -> None:
    events = StatusHandlers(two_models)
    (busy, *_), (message, heading, state) = list(events.load_model("large", request()))
    assert "large is being loaded" in busy
    assert "large is ready" in message
    assert "<strong>large</strong>" in heading
    assert state["name"] == two_models.engine.info.name == "large"


def test_folders_of_models_are_not_shown_to_visitors(two_models: WebContext) -> None:
    """Unless two folders have the same name."""
    engine, events = two_models.engine, StatusHandlers(two_models)
    notices = {"fake": UserMessage("Free."), "/srv/private/large": UserMessage("For research only.")}
    engine._switch.catalog = dataclasses.replace(engine._switch.catalog, notices=notices)  # type: ignore[type-var]
    assert "For research only." in events.show_licence("large", request())
    (busy, *_), (message, heading, state) = list(events.load_model("large", request()))
    picked, _licence = events.list_models(request())
    assert picked.value == "large"
    assert engine.info.name == "/srv/private/large"
    assert "private" not in f"{busy} {message} {heading} {state} {picked.choices}"
    engine._switch.loading = ModelLoading("/srv/private/large")
    assert events.show_status(request())["loading"]["name"] == "large"
    notices["/mnt/large"] = UserMessage("Another.")
    assert [name for name, _ in events.list_models(request())[0].choices] == [
        "fake",
        "/srv/private/large",
        "/mnt/large",
    ]


@pytest.mark.parametrize("wrong", ["other", "", None, 7, "fake"])
def test_unknown_or_loaded_models_are_rejected(two_models: WebContext, wrong: Any) -> None:
    ((message, _heading, state),) = list(StatusHandlers(two_models).load_model(wrong, request()))
    assert 'role="alert"' in message
    assert state["name"] == "fake"


def test_loading_without_a_catalog_is_rejected(events: StatusHandlers) -> None:
    ((message, *_),) = list(events.load_model("large", request()))
    assert 'role="alert"' in message


def test_model_that_does_not_fit_is_reported_and_the_old_one_kept(two_models: WebContext, engine: FakeEngine) -> None:
    engine.notice = UserMessage("small machine")
    *_, (message, heading, _) = list(StatusHandlers(two_models).load_model("large", request()))
    assert "It does not fit." in message
    assert "<strong>fake</strong>" in heading


def test_running_takes_block_loading(two_models: WebContext) -> None:
    two_models.engine._switch.timeout = 0.01
    speech = two_models.engine.speak("Hello.")
    *_, (message, *_) = list(StatusHandlers(two_models).load_model("large", request()))
    assert "still being spoken" in message
    speech.close()
