"""Budgets: what is refused, with which sentence, and what comes back when."""

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

WORDS = Translations.load().words(None)
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
    with budgets.reserve_take(owner, 60 * minutes, WORDS) as reservation:
        reservation.spoken = 60 * minutes


def test_so_many_takes_at_once_of_one_owner(budgets: Budgets) -> None:
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(budgets.reserve_take(browser("ann"), 1, WORDS))
        with pytest.raises(BudgetExceeded, match="4 of your takes are already running or waiting"):
            held.enter_context(budgets.reserve_take(browser("ann", "192.0.2.2"), 1, WORDS))
        held.enter_context(budgets.reserve_take(browser("ben"), 1, WORDS))
    speak(budgets, browser("ann"), 1)


def test_invented_owners_have_one_address(budgets: Budgets) -> None:
    with ExitStack() as held:
        for number in range(8):
            held.enter_context(budgets.reserve_take(browser(f"invented {number}"), 1, WORDS))
        with pytest.raises(BudgetExceeded, match="8 takes from your network"):
            held.enter_context(budgets.reserve_take(browser("another"), 1, WORDS))
        held.enter_context(budgets.reserve_take(browser("another", "192.0.2.2"), 1, WORDS))
        held.enter_context(budgets.reserve_take(Owner("user", "known", address="192.0.2.1"), 1, WORDS))


def test_there_is_an_end_to_all(budgets: Budgets) -> None:
    with ExitStack() as held:
        for number in range(TAKES):
            held.enter_context(budgets.reserve_take(browser(f"{number}", f"192.0.2.{number}"), 1, WORDS))
        with pytest.raises(BudgetExceeded, match="engine is busy"):
            held.enter_context(budgets.reserve_take(LOCAL, 1, WORDS))
    speak(budgets, LOCAL, 1)


def test_a_take_is_half_an_hour_at_most(budgets: Budgets) -> None:
    speak(budgets, browser("ann"), 30)
    with pytest.raises(BudgetExceeded, match="about 31 minutes of speech, and a take can have at most 30"):
        speak(budgets, browser("ben"), 30.5)


def test_an_hour_has_an_hour_of_speech_and_then_there_is_room_again(budgets: Budgets, clock: Clock) -> None:
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


def test_what_was_not_spoken_is_not_spent(budgets: Budgets) -> None:
    with ExitStack() as held:
        held.enter_context(budgets.reserve_take(browser("ann"), 30 * 60, WORDS))
        held.enter_context(budgets.reserve_take(browser("ann"), 30 * 60, WORDS))
        with pytest.raises(BudgetExceeded, match="hourly limit"):
            speak(budgets, browser("ann"), 1)
    speak(budgets, browser("ann"), 30)


def test_people_with_accounts_and_the_local_owner_have_no_hour(budgets: Budgets) -> None:
    for _ in range(10):
        speak(budgets, Owner("user", "ann", address="192.0.2.1"), 30)
        speak(budgets, LOCAL, 600)


def test_scripts_are_counted_until_they_are_over(budgets: Budgets) -> None:
    ends = [budgets.reserve_script(browser("ann"), WORDS) for _ in range(2)]
    with pytest.raises(BudgetExceeded, match="2 of your scripts"):
        budgets.reserve_script(browser("ann"), WORDS)
    ends[0]()
    ends[0]()
    budgets.reserve_script(browser("ann"), WORDS)
    with pytest.raises(BudgetExceeded):
        budgets.reserve_script(browser("ann"), WORDS)
    for _ in range(SCRIPTS - 2):
        budgets.reserve_script(LOCAL, WORDS)
    with pytest.raises(BudgetExceeded, match="engine is busy"):
        budgets.reserve_script(LOCAL, WORDS)


def test_nothing_is_kept_of_visitors_who_have_nothing_here(budgets: Budgets, clock: Clock) -> None:
    stays = budgets.reserve_take(browser("stays", ""), 1, WORDS)
    stays.__enter__()
    for number in range(50):
        speak(budgets, browser(f"{number}"), 0.1)
    clock.now += HOUR
    for _ in range(60):
        speak(budgets, browser("last", ""), 0.1)
    assert {key for _, key in budgets._ledgers} == {"browser:stays", "browser:last"}
    stays.__exit__(None, None, None)


def test_limits_make_sense() -> None:
    """Nobody's share is all there is, and an address has room for more than one owner."""
    assert BROWSER.takes is not None
    assert ADDRESS.takes is not None
    assert BROWSER.takes < ADDRESS.takes < TAKES


# --- the events of Speak


def messages(context: WebContext, text: str, voice_id: str, ticket: str) -> Any:
    return SpeakHandlers(context).speak(text, voice_id, "", 0.7, 0.8, 30, 0, "", "fake", None, ticket, None)  # type: ignore[arg-type]


def test_a_refused_take_asks_nothing_of_the_engine(context: WebContext, engine: Any) -> None:
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


def test_a_ticket_is_good_for_one_take(context: WebContext) -> None:
    """Or Stop would reach one of two, and a take that its page has left would go on."""
    anna = context.storage.voices.add(voice("Anna")).id
    first = messages(context, "Hello there.", anna, "same")
    next(first)
    (second,) = messages(context, "Hello again.", anna, "same")
    assert "being spoken already" in second["status"]
    assert list(first)[-1]["stop_reason"] == "end"


def test_a_script_too_many_is_not_even_queued(context: WebContext) -> None:
    anna, scripts = context.storage.voices.add(voice("Anna")).id, context.storage.scripts
    ids = [scripts.create("Play", [Card("One."), Card("Two.")], voice_id=anna).id for _ in range(2)]
    object.__setattr__(context, "budgets", Budgets({"local": Limits(scripts=1)}))
    started: dict[str, list[Any]] = {}
    runner: Any = SimpleNamespace(
        speaking=lambda _owner, script: () if script in started else None,
        start=lambda _owner, script, over: started.setdefault(script, []).append(over),
    )
    actions = ScriptActions(replace(context, scripts=runner))

    def speak(script: str) -> Any:
        asked: Any = SimpleNamespace(script=script, optional=lambda _: None)
        return actions.changing["speak"](LOCAL, asked, WORDS)

    assert speak(ids[0]) == speak(ids[0]) == {}, "one that is being spoken is no other one"
    with pytest.raises(BudgetExceeded, match="1 of your scripts"):
        speak(ids[1])
    assert not scripts.waiting(ids[1], 9)
    for over in started.pop(ids[0]):
        over()
    assert speak(ids[1]) == {}
    assert len(scripts.waiting(ids[1], 9)) == 2
