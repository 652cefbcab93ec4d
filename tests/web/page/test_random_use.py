"""Random use of the page in the attack: a round is repeated by its seed, and each of its checks can fail."""

import random
from collections.abc import Callable
from contextlib import closing
from threading import Thread

import pytest
from playwright.sync_api import Browser

from storage import Storage
from storage.voices.sample_voices import install_samples
from tests.attack.pages import checks
from tests.attack.pages import visit as visiting
from tests.attack.pages.actions import ACTIONS, TABS, Step, click
from tests.attack.pages.random_use import plan
from tests.attack.pages.visit import ABSENT, Visit
from tests.support.fake_engine import FakeEngine
from web import page as served

TAMPERED = """() => {
  document.querySelector(".rp-rail-star[aria-pressed=true]").ariaPressed = "false";
  document.querySelector("#rp-speak").disabled = true;
  document.documentElement.lang = "xx";
  setTimeout(() => { throw new Error("a fault"); });
}"""


def test_round_is_repeated_by_its_seed() -> None:
    assert plan("1:0") == plan("1:0") != plan("1:1")
    assert plan("1:0", 5).moves == plan("1:0", 9).moves[:6]


def test_actions_use_all_tabs() -> None:
    steps = [step for action in ACTIONS for seed in range(40) for step in action(random.Random(seed))]
    assert {step.on for step in steps if step.do == "tab"} == set(TABS) == served.TABS.keys()


@pytest.mark.slow
def test_differences_and_errors_are_found(
    chromium: Browser, serve: Callable[..., str], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_samples(storage.voices)
    monkeypatch.setattr(checks, "TABS", ("speak", "library", "script", "history"))
    cuts, holds = list[float](), list[float]()

    def cut(seconds: float) -> Thread:
        cuts.append(seconds)
        back = Thread()
        back.join = lambda *_given: cuts.clear()  # type: ignore[method-assign]
        return back

    def hold(seconds: float) -> Thread:
        holds.append(seconds)
        return cut(seconds)

    visit = Visit(chromium, serve(FakeEngine(), storage, "browser"), pages=1, phone=False, cut=cut, hold=hold)
    (page,) = visit.pages
    with closing(visit.context):
        assert (
            visit.take(page, "mouse", [Step("type", "#rp-text textarea", "Hello."), click("#rp-speak")])[-1] == "Speak"
        )
        assert visit.take(page, "keys", [click(".rp-rail-star", 1)]) == ["Favourite: Ben"]
        assert visit.take(page, "tick", [click(".rp-rail-star", 7), click(".no-such")]) == ["Favourite: Adam", ABSENT]
        visit.settle(page)
        page.evaluate(TAMPERED)
        found = list(checks.differences(visit, page, storage))
        assert "speak: Speak" in found[0], found
        assert [each.partition(":")[0] for each in found] == ["stays disabled", "favourites", "shell", "favourites"]
        assert visit.troubles == ["script error: a fault"]

        monkeypatch.setattr(visiting, "LIMIT", 0.5)
        page.route("**/hangs", lambda route: None)
        page.evaluate("void fetch('/hangs')")
        visit.settle(page)
        assert visit.troubles[1].startswith("never ended: http://127.0.0.1:")

        monkeypatch.undo()
        link = Step("link", ".rp-rail-row", "voice", 1)
        (voice,) = visit.take(page, "mouse", [link])
        assert page.locator(".rp-rail-row[data-picked]").get_attribute("data-id") == voice
        assert visit.take(page, "mouse", [Step("cut", text="50"), Step("page")]) == ["", ""]
        assert (len(visit.pages), cuts) == (2, [])
        assert (visit.take(page, "mouse", [Step("hold", text="20")]), holds) == ([""], [0.02])
        monkeypatch.setattr(visiting, "ARRIVED", "() => false")
        visit.take(page, "mouse", [link])
        assert visit.troubles[2:] == [f"the link to voice {voice} shows nothing"]
