"""The events of the Status tab, without a browser."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import DoesNotFit
from storage import Storage
from studio.model_manager import Choice, Loading
from tests.fake_engine import FakeEngine
from tests.web.conftest import furnished
from web.context import House
from web.tabs.status.handlers import Watching
from web.tabs.status.machine import memory

NOTICES = {"fake": "Free <for> all.", "large": "For research only."}


def request(session: str = "mine") -> Any:
    return SimpleNamespace(session_hash=session, headers={})


@pytest.fixture
def events(house: House) -> Watching:
    return Watching(house)


@contextmanager
def waiting(house: House, *sessions: str) -> Iterator[None]:
    """Takes of these pages, in the order in which they have their turns."""
    with ExitStack() as takes:
        for place, session in enumerate(sessions):
            takes.enter_context(house.running.ticket(f"take {place}", session))
            speech: Any = SimpleNamespace(place=place, cancel=lambda: None)
            house.running.began(f"take {place}", speech)
        yield


@pytest.fixture
def choosing(engine: FakeEngine, studio: Storage, tmp_path: Path) -> House:
    """A house whose host allows two models."""

    def load(model: str, _report: object) -> FakeEngine:
        if model == "large" and engine.notice == "small machine":
            raise DoesNotFit("It does not fit.")
        made = FakeEngine()
        made.name = model
        return made

    house = furnished(engine, studio, tmp_path)
    house.engine._choice = Choice(NOTICES, lambda *_: None, load)  # type: ignore[arg-type]
    return house


def test_the_board_says_what_runs(events: Watching, engine: FakeEngine) -> None:
    state = events.look(request())
    assert (state["name"], state["device"], state["notice"]) == ("fake", "cpu", engine.notice)
    assert (state["precision"], state["graphs"]) == ("fp32", "off")
    assert (state["speaking"], state["slots"], state["waiting"]) == (0, 1, 0)
    assert (state["place"], state["wait"], state["factor"], state["loading"]) == (None, 0, None, None)
    assert state["memory"] > 10_000_000
    assert state["device_memory"] is None, "on a CPU"
    assert state["uptime"] >= 0
    assert json.loads(json.dumps(state)) == state, "it goes to the browser"


def test_takes_leave_their_pace_behind(events: Watching, house: House) -> None:
    list(house.engine.speak("Hello there."))
    assert events.look(request())["factor"] > 0


def test_everyone_sees_their_own_place_and_nobody_elses(events: Watching, house: House) -> None:
    with waiting(house, "another", "mine", "another"):
        state = events.look(request())
        assert state["place"] == 2
        assert events.look(request("another"))["place"] == 1
        assert events.look(request("stranger"))["place"] is None
        assert "another" not in json.dumps(state)
    assert events.look(request())["place"] is None


def test_the_wait_is_the_readers_own(events: Watching, house: House) -> None:
    list(house.engine.speak("Hello there."))
    speeches = [house.engine.speak("Something longer. " * 9) for _ in range(3)]
    next(speeches[0])
    with waiting(house, "mine", "another"):
        mine, theirs, newcomers = (events.look(request(who))["wait"] for who in ("mine", "another", "new"))
    assert 0 < mine < theirs < newcomers
    for speech in speeches:
        speech.close()


def test_a_model_on_its_way_is_shown_to_all(events: Watching, house: House) -> None:
    house.engine._loading = Loading("large", waits=True)
    assert events.look(request())["loading"] == {"name": "large", "waits": True, "done": 0.0}
    house.engine._loading = Loading("large", 0.6)
    assert events.look(request())["loading"] == {"name": "large", "waits": False, "done": 0.6}


def test_memory_is_told_where_the_system_says_less(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("10 7 3", "ascii")
    assert memory(tmp_path / "statm") == 7 * 4096
    assert memory(tmp_path / "nothing") > 10_000_000


# --- another model


def test_a_licence_is_read_before_its_model_is_loaded(choosing: House) -> None:
    events = Watching(choosing)
    assert events.licence("large") == '<p class="rp-licence">For research only.</p>'
    assert "Free &lt;for&gt; all." in events.licence("fake")
    assert [events.licence(wrong) for wrong in ("other", None, 7, [])] == [""] * 4
    picked = events.choices()
    assert ([name for name, _ in picked.choices], picked.value) == (["fake", "large"], "fake")


def test_another_model_is_everyones(choosing: House) -> None:
    events = Watching(choosing)
    (busy, *_), (said, heading, state) = list(events.load("large", request()))
    assert "large is being loaded" in busy
    assert "large is ready" in said
    assert "<strong>large</strong>" in heading
    assert state["name"] == choosing.engine.name == "large"


@pytest.mark.parametrize("wrong", ["other", "", None, 7, "fake"])
def test_what_cannot_be_loaded_is_refused(choosing: House, wrong: Any) -> None:
    ((said, _heading, state),) = list(Watching(choosing).load(wrong, request()))
    assert 'role="alert"' in said
    assert state["name"] == "fake"


def test_nothing_is_loaded_where_there_is_no_choice(events: Watching) -> None:
    ((said, *_),) = list(events.load("large", request()))
    assert 'role="alert"' in said


def test_a_model_that_does_not_fit_is_said_and_the_old_one_is_back(choosing: House, engine: FakeEngine) -> None:
    engine.notice = "small machine"
    *_, (said, heading, _) = list(Watching(choosing).load("large", request()))
    assert "It does not fit." in said
    assert "<strong>fake</strong>" in heading


def test_takes_in_the_way_are_named(choosing: House) -> None:
    choosing.engine._patience = 0.01
    speech = choosing.engine.speak("Hello.")
    *_, (said, *_) = list(Watching(choosing).load("large", request()))
    assert "still being spoken" in said
    speech.close()
