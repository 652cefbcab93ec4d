"""The events of the Status tab, without a browser."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import DoesNotFit
from engine.sentences import Sentence
from storage import Storage
from studio.engines.model_manager import ModelCatalog, ModelLoading
from tests.support.fake_engine import FakeEngine
from tests.web.conftest import make_context
from web.context import WebContext
from web.tabs.status.handlers import StatusHandlers
from web.tabs.status.views import process_memory

NOTICES = {"fake": Sentence("Free <for> all."), "large": Sentence("For research only.")}


def request(session: str = "mine") -> Any:
    return SimpleNamespace(session_hash=session, headers={})


@pytest.fixture
def events(context: WebContext) -> StatusHandlers:
    return StatusHandlers(context)


@contextmanager
def waiting(context: WebContext, *sessions: str) -> Iterator[None]:
    """Takes of these pages, in the order in which they have their turns."""
    with ExitStack() as takes:
        for place, session in enumerate(sessions):
            takes.enter_context(context.running.register(f"take {place}", session))
            speech: Any = SimpleNamespace(place=place, cancel=lambda: None)
            context.running.attach(f"take {place}", speech)
        yield


@pytest.fixture
def choosing(engine: FakeEngine, storage: Storage, tmp_path: Path) -> WebContext:
    """A context whose host allows two models."""

    def load(model: str, _report: object) -> FakeEngine:
        if model == "large" and engine.notice == Sentence("small machine"):
            raise DoesNotFit("It does not fit.")
        made = FakeEngine()
        made.name = model
        return made

    context = make_context(engine, storage, tmp_path)
    context.engine._catalog = ModelCatalog(NOTICES, lambda *_: None, load)  # type: ignore[arg-type]
    return context


def test_the_board_says_what_runs(events: StatusHandlers, engine: FakeEngine) -> None:
    state = events.show_status(request())
    assert (state["name"], state["device"], state["notice"]) == ("fake", "cpu", str(engine.notice))
    assert (state["precision"], state["graphs"]) == ("fp32", "off")
    assert (state["speaking"], state["slots"], state["waiting"]) == (0, 1, 0)
    assert (state["place"], state["wait"], state["factor"], state["loading"]) == (None, 0, None, None)
    assert (state["idle"], state["asleep"]) == (None, False)
    assert state["memory"] > 10_000_000
    assert state["device_memory"] is None, "on a CPU"
    assert state["uptime"] >= 0
    assert json.loads(json.dumps(state)) == state, "it goes to the browser"


def test_takes_leave_their_pace_behind(events: StatusHandlers, context: WebContext) -> None:
    list(context.engine.speak("Hello there."))
    assert events.show_status(request())["factor"] > 0


def test_everyone_sees_their_own_place_and_nobody_elses(events: StatusHandlers, context: WebContext) -> None:
    with waiting(context, "another", "mine", "another"):
        state = events.show_status(request())
        assert state["place"] == 2
        assert events.show_status(request("another"))["place"] == 1
        assert events.show_status(request("stranger"))["place"] is None
        assert "another" not in json.dumps(state)
    assert events.show_status(request())["place"] is None


def test_the_wait_is_the_readers_own(events: StatusHandlers, context: WebContext) -> None:
    list(context.engine.speak("Hello there."))
    speeches = [context.engine.speak("Something longer. " * 9) for _ in range(3)]
    next(speeches[0])
    with waiting(context, "mine", "another"):
        mine, theirs, newcomers = (events.show_status(request(who))["wait"] for who in ("mine", "another", "new"))
    assert 0 < mine < theirs < newcomers
    for speech in speeches:
        speech.close()


def test_a_model_on_its_way_is_shown_to_all(events: StatusHandlers, context: WebContext) -> None:
    context.engine._loading = ModelLoading("large", waits=True)
    assert events.show_status(request())["loading"] == {"name": "large", "waits": True, "done": 0.0}
    context.engine._loading = ModelLoading("large", 0.6)
    assert events.show_status(request())["loading"] == {"name": "large", "waits": False, "done": 0.6}


def test_memory_is_told_where_the_system_says_less(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("10 7 3", "ascii")
    assert process_memory(tmp_path / "statm") == 7 * 4096
    assert process_memory(tmp_path / "nothing") > 10_000_000


# --- another model


def test_a_licence_is_read_before_its_model_is_loaded(choosing: WebContext) -> None:
    events = StatusHandlers(choosing)
    assert events.show_licence("large", request()) == '<p class="rp-licence">For research only.</p>'
    assert "Free &lt;for&gt; all." in events.show_licence("fake", request())
    assert [events.show_licence(wrong, request()) for wrong in ("other", None, 7, [])] == [""] * 4
    picked, licence = events.list_models(request())
    assert licence == events.show_licence("fake", request())
    assert ([name for name, _ in picked.choices], picked.value) == (["fake", "large"], "fake")


def test_another_model_is_everyones(choosing: WebContext) -> None:
    events = StatusHandlers(choosing)
    (busy, *_), (said, heading, state) = list(events.load_model("large", request()))
    assert "large is being loaded" in busy
    assert "large is ready" in said
    assert "<strong>large</strong>" in heading
    assert state["name"] == choosing.engine.name == "large"


@pytest.mark.parametrize("wrong", ["other", "", None, 7, "fake"])
def test_what_cannot_be_loaded_is_refused(choosing: WebContext, wrong: Any) -> None:
    ((said, _heading, state),) = list(StatusHandlers(choosing).load_model(wrong, request()))
    assert 'role="alert"' in said
    assert state["name"] == "fake"


def test_nothing_is_loaded_where_there_is_no_choice(events: StatusHandlers) -> None:
    ((said, *_),) = list(events.load_model("large", request()))
    assert 'role="alert"' in said


def test_a_model_that_does_not_fit_is_said_and_the_old_one_is_back(choosing: WebContext, engine: FakeEngine) -> None:
    engine.notice = Sentence("small machine")
    *_, (said, heading, _) = list(StatusHandlers(choosing).load_model("large", request()))
    assert "It does not fit." in said
    assert "<strong>fake</strong>" in heading


def test_takes_in_the_way_are_named(choosing: WebContext) -> None:
    choosing.engine._patience = 0.01
    speech = choosing.engine.speak("Hello.")
    *_, (said, *_) = list(StatusHandlers(choosing).load_model("large", request()))
    assert "still being spoken" in said
    speech.close()
