"""Rounds of random use of the page: a visitor acts within milliseconds, and then everything must agree."""

import atexit
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from threading import Event, Thread, Timer
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser

from benchmarks import browser
from storage import Storage
from tests.attack.attack import Attack, Broken, Skipped
from tests.attack.live.guest import Guest, status
from tests.attack.live.server import shared_server
from tests.attack.pages import checks
from tests.attack.pages.actions import ACTIONS, PREPARATIONS, Step
from tests.attack.pages.visit import ABSENT, Visit
from tests.web.page.forwarder import Forwarder
from tests.web.visiting import finish_deletions

MOVES = 20
LATENCIES = (0.0, 0.0, 0.02, 0.1, 0.2)  # seconds, at most
PAUSES = (0, 0, 20, 80, 150, 400, 1_500)  # ms, at most
OPTIONS = "--owners", "browser"
MICROPHONE = "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"


@dataclass(frozen=True)
class Move:
    """Steps on one page after a pause in ms.

    page: its index, modulo the number of pages. how: each step is a real input, or all are taken in one tick.
    """

    page: int
    how: Literal["mouse", "keys", "tick"]
    pause: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Plan:
    """A round. latency: at most, in seconds, before the server gets or sends data."""

    seed: str
    phone: bool
    pages: int
    latency: float
    moves: tuple[Move, ...]


def plan(seed: str, count: int = MOVES) -> Plan:
    """The round of a seed."""
    chance = random.Random(seed)
    pages, keys = chance.choice((1, 1, 2)), chance.random() < 0.25
    phone, latency = chance.random() < 0.3, chance.choice(LATENCIES)
    prepared = [step for action in chance.sample(PREPARATIONS, 2) for step in action(chance)]
    moves = (_move(chance, keys) for _ in range(count))
    return Plan(seed, phone, pages, latency, (Move(0, "mouse", 0, tuple(prepared)), *moves))


def _move(chance: random.Random, keys: bool) -> Move:
    how: Literal["mouse", "keys", "tick"] = (
        "keys" if keys else chance.choice(("mouse", "mouse", "keys", "tick", "tick"))
    )
    steps = [step for _ in range(chance.choice((1, 1, 2, 3))) for step in chance.choice(ACTIONS)(chance)]
    return Move(chance.randrange(12), how, chance.randint(0, chance.choice(PAUSES)), tuple(steps))


def play(chromium: Browser, url: str, storage: Storage, round: Plan, **faults: Callable[[float], Thread]) -> None:
    """Play a round. url: of the page. faults: cut and hold, as for Visit. Raises Broken, with the moves."""
    done, troubles = list[str](), list[str]()
    with ExitStack() as ending:
        visit = Visit(chromium, url, pages=round.pages, phone=round.phone, **faults)
        ending.callback(visit.context.close)
        for move in round.moves:
            page = visit.pages[move.page % len(visit.pages)]
            page.wait_for_timeout(move.pause)
            pressed = visit.take(page, move.how, move.steps)
            named = "; ".join(
                f"{step.do} {step.on or step.text} ({name})" for step, name in zip(move.steps, pressed, strict=True)
            )
            done.append(f"page {visit.pages.index(page)}, {move.how}, after {move.pause} ms: {named}")
            if move.how == "keys" and move.steps[-1].do == "click" and pressed[-1] != ABSENT:
                visit.settle(page)
                if page.evaluate("document.activeElement === document.body"):
                    visit.troubles.append("the focus is lost")
            if visit.troubles:
                break
        for page in visit.pages:
            visit.settle(page)
            finish_deletions(page)  # those of one page change the others
        for page in visit.pages:
            visit.settle(page)
        for page in visit.pages:
            troubles += checks.differences(visit, page, storage)
        troubles += visit.troubles
    if troubles:
        lines = [
            f"seed {round.seed}, {'phone' if round.phone else 'desktop'}, latency {round.latency:g} s",
            *done,
            *troubles,
        ]
        raise Broken("\n".join(lines))


@cache
def _chromium() -> Browser:
    stack = ExitStack()
    atexit.register(stack.close)
    try:
        return stack.enter_context(browser.chromium(*MICROPHONE))
    except browser.NoChromium as error:
        raise Skipped(str(error)) from None


@cache
def _storage() -> Storage:
    return Storage.open(shared_server(*OPTIONS).database)


def _delay(seed: str, seconds: float, flowing: Event) -> Callable[[], float]:
    chance = random.Random(seed)

    def delay() -> float:
        flowing.wait()
        return chance.uniform(0.0, seconds)

    return delay


def use(seed: str) -> None:
    """Play the round of a seed on the real app. Raises Broken."""
    server, round, forwarder = shared_server(*OPTIONS), plan(seed), Forwarder()
    timers, flowing = list[Timer](), Event()
    flowing.set()

    def connect() -> None:
        forwarder.open(server.port, _delay(seed, round.latency, flowing))

    def later(seconds: float, end: Callable[[], None]) -> Timer:
        timers.append(timer := Timer(seconds, end))
        timer.start()
        return timer

    def cut(seconds: float) -> Thread:
        forwarder.close()
        return later(seconds, connect)

    def hold(seconds: float) -> Thread:
        flowing.clear()
        return later(seconds, flowing.set)

    connect()
    try:
        url = f"http://127.0.0.1:{forwarder.port}{urlsplit(server.link).path}"
        play(_chromium(), url, _storage(), round, cut=cut, hold=hold)
    finally:
        for timer in timers:
            timer.join()
        forwarder.close()
    server.check_log()
    board = status(Guest(server))
    if board["speaking"] or board["waiting"]:
        raise Broken(f"seed {seed}: the engine still speaks {board['speaking']} takes, {board['waiting']} wait.")


def _cases(seed: int, count: int) -> Iterator[str]:
    yield from (f"{seed}:{index}" for index in range(count))


RANDOM_USE = Attack(
    "random use", "pages, after random actions within milliseconds", _cases, use, 20, 300.0, None, alone=True
)
