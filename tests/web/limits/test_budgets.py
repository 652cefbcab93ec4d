"""Budgets: the limits, their messages, and when spent budget returns."""

from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from studio.script import Card
from tests.support.clock import Clock
from tests.support.fake_engine import voice
from web.context import WebContext
from web.identity.owners import Owner
from web.limits.budgets import ADDRESS, BROWSER, HOUR, SCRIPTS, TAKES, BudgetExceeded, Budgets, Limits
from web.tabs.script.actions import ScriptActions
from web.tabs.speak.handlers import SpeakHandlers
from web.ui.i18n import Translations

TEXTS = Translations.load().texts(None)
LOCAL = Owner("local")


def browser(name: str, address: str = "192.0.2.1") -> Owner:
    return Owner("browser", name, address=address)


@pytest.fixture
def clock() -> Clock:
    return Clock(5_000.0)


@pytest.fixture
def budgets(clock: Clock) -> Budgets:
    return Budgets(clock=clock)


def speak(budgets: Budgets, owner: Owner, minutes: float) -> None:
    with budgets.reserve_take(owner, 60 * minutes, TEXTS) as reservation:
        reservation.spoken = 60 * minutes


def test_concurrent_takes_per_owner_are_bounded(budgets: Budgets) -> None:
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(budgets.reserve_take(browser("ann"), 1, TEXTS))
        with pytest.raises(BudgetExceeded, match="4 of your takes are already running or waiting"):
            held.enter_context(budgets.reserve_take(browser("ann", "192.0.2.2"), 1, TEXTS))
        held.enter_context(budgets.reserve_take(browser("ben"), 1, TEXTS))
    speak(budgets, browser("ann"), 1)


def test_invented_owners_share_the_limit_of_their_address(budgets: Budgets) -> None:
    with ExitStack() as held:
        for number in range(8):
            held.enter_context(budgets.reserve_take(browser(f"invented {number}"), 1, TEXTS))
        with pytest.raises(BudgetExceeded, match="8 takes from your network"):
            held.enter_context(budgets.reserve_take(browser("another"), 1, TEXTS))
        held.enter_context(budgets.reserve_take(browser("another", "192.0.2.2"), 1, TEXTS))
        held.enter_context(budgets.reserve_take(Owner("user", "known", address="192.0.2.1"), 1, TEXTS))


def test_total_concurrent_takes_are_bounded(budgets: Budgets) -> None:
    with ExitStack() as held:
        for number in range(TAKES):
            held.enter_context(budgets.reserve_take(browser(f"{number}", f"192.0.2.{number}"), 1, TEXTS))
        with pytest.raises(BudgetExceeded, match="engine is busy"):
            held.enter_context(budgets.reserve_take(LOCAL, 1, TEXTS))
    speak(budgets, LOCAL, 1)


def test_take_length_is_bounded(budgets: Budgets) -> None:
    speak(budgets, browser("ann"), 30)
    with pytest.raises(BudgetExceeded, match="about 31 minutes of speech, and a take can have at most 30"):
        speak(budgets, browser("ben"), 30.5)


def test_hourly_budget_returns_after_an_hour(budgets: Budgets, clock: Clock) -> None:
    speak(budgets, browser("ann"), 30)
    clock.now += 600
    speak(budgets, browser("ann"), 29)
    speak(budgets, browser("ann"), 1)
    with pytest.raises(BudgetExceeded, match="room for this text in 50 min") as refused:
        speak(budgets, browser("ann"), 1)
    assert refused.value.wait == HOUR - 600
    clock.now += HOUR - 601
    with pytest.raises(BudgetExceeded):
        speak(budgets, browser("ann"), 1)
    clock.now += 1
    speak(budgets, browser("ann"), 1)


def test_unspoken_reservations_are_returned(budgets: Budgets) -> None:
    with ExitStack() as held:
        held.enter_context(budgets.reserve_take(browser("ann"), 30 * 60, TEXTS))
        held.enter_context(budgets.reserve_take(browser("ann"), 30 * 60, TEXTS))
        with pytest.raises(BudgetExceeded, match="hourly limit"):
            speak(budgets, browser("ann"), 1)
    speak(budgets, browser("ann"), 30)


def test_accounts_and_local_owner_have_no_hourly_limit(budgets: Budgets) -> None:
    for _ in range(10):
        speak(budgets, Owner("user", "ann", address="192.0.2.1"), 30)
        speak(budgets, LOCAL, 600)


def test_script_reservations_count_until_released(budgets: Budgets) -> None:
    ends = [budgets.reserve_script(browser("ann"), TEXTS) for _ in range(2)]
    with pytest.raises(BudgetExceeded, match="2 of your scripts"):
        budgets.reserve_script(browser("ann"), TEXTS)
    ends[0]()
    ends[0]()
    budgets.reserve_script(browser("ann"), TEXTS)
    with pytest.raises(BudgetExceeded):
        budgets.reserve_script(browser("ann"), TEXTS)
    for _ in range(SCRIPTS - 2):
        budgets.reserve_script(LOCAL, TEXTS)
    with pytest.raises(BudgetExceeded, match="engine is busy"):
        budgets.reserve_script(LOCAL, TEXTS)


def test_idle_visitors_are_forgotten(budgets: Budgets, clock: Clock) -> None:
    stays = budgets.reserve_take(browser("stays", ""), 1, TEXTS)
    stays.__enter__()
    for number in range(50):
        speak(budgets, browser(f"{number}"), 0.1)
    clock.now += HOUR
    for _ in range(60):
        speak(budgets, browser("last", ""), 0.1)
    assert {key for _, key in budgets._ledgers} == {"browser:stays", "browser:last"}
    stays.__exit__(None, None, None)


def test_limits_are_consistent() -> None:
    """The limit of an owner is below that of an address, which is below the total."""
    assert BROWSER.takes is not None
    assert ADDRESS.takes is not None
    assert BROWSER.takes < ADDRESS.takes < TAKES


# --- handlers of Speak


def messages(context: WebContext, text: str, voice_id: str, ticket: str) -> Any:
    return SpeakHandlers(context).speak(None, text, voice_id, "", 0.7, 0.8, 30, 0, 1, "", "fake", None, ticket)  # type: ignore[arg-type]


def test_refused_take_does_not_reach_the_engine(context: WebContext, engine: Any) -> None:
    anna = context.storage.voices.add(voice("Anna")).id
    object.__setattr__(context, "budgets", Budgets({"local": BROWSER}))
    running = [messages(context, "Hello there.", anna, f"t{number}") for number in range(4)]
    for take in running:
        assert [next(take)["kind"], next(take)["kind"]] == ["start", "chunk"]
    (refused,) = messages(context, "Me too.", anna, "fifth")
    assert "4 of your takes" in refused["status"]
    assert refused["problem"]
    (long,) = messages(context, "Words and words. " * 3_000, anna, "long")
    assert "Turn it into a script" in long["status"]
    assert len(engine.asked) == 4
    assert engine.owners == [LOCAL.key] * 4
    running[0].close()
    list(running[1])
    assert [message["kind"] for message in messages(context, "Me too.", anna, "again")][-1] == "end"
    assert len(engine.asked) == 5


def test_ticket_is_valid_for_one_take(context: WebContext) -> None:
    """Otherwise Stop would reach only one of two takes, and a take would continue after its page is left."""
    anna = context.storage.voices.add(voice("Anna")).id
    first = messages(context, "Hello there.", anna, "same")
    next(first)
    (second,) = messages(context, "Hello again.", anna, "same")
    assert "being spoken already" in second["status"]
    assert list(first)[-1]["stop_reason"] == "end"


def test_script_over_the_limit_is_not_queued(context: WebContext) -> None:
    anna, scripts = context.storage.voices.add(voice("Anna")).id, context.storage.scripts
    ids = [scripts.create("Play", [Card("One."), Card("Two.")], voice_id=anna).id for _ in range(2)]
    object.__setattr__(context, "budgets", Budgets({"local": Limits(scripts=1)}))
    started: dict[str, list[Any]] = {}
    runner: Any = SimpleNamespace(
        speaking=lambda _owner, script: () if script in started else None,
        start=lambda _owner, script, over: started.setdefault(script, []).append(over),
    )
    actions = ScriptActions(replace(context, script_runner=runner))

    def speak(script: str) -> Any:
        asked: Any = SimpleNamespace(script=script, optional=lambda _: None)
        return actions.write_actions["speak"](LOCAL, asked, TEXTS)

    assert speak(ids[0]) == speak(ids[0]) == {}, "a script that is already spoken is not counted twice"
    with pytest.raises(BudgetExceeded, match="1 of your scripts"):
        speak(ids[1])
    assert not scripts.queued(ids[1], 9)
    for over in started.pop(ids[0]):
        over()
    assert speak(ids[1]) == {}
    assert len(scripts.queued(ids[1], 9)) == 2
