"""Hours of mixed load: the server's memory must not grow."""

import os
import random
import time
from collections.abc import Iterator

import httpx

from tests.attack.attack import Attack, Broken
from tests.attack.live.guest import Guest, clip
from tests.attack.live.server import Server

MINUTES = float(os.environ.get("REPRISE_ATTACK_MINUTES", "5"))
GROWTH = 0.10
WARMING = 0.2  # of the time
SAMPLES = 120  # memory samples in a whole run


def _cases(seed: int, count: int) -> Iterator[int]:
    yield from range(seed, seed + count)


def soak(seed: int) -> int:
    """Run visitors that speak, save, delete, send invalid events and leave. Returns their number."""
    chance, server = random.Random(seed), Server("--owners", "browser").wait_until_started()
    began, visits, sampled, memory = time.monotonic(), 0, 0.0, list[tuple[float, int]]()
    step = max(5.0, 60.0 * MINUTES / SAMPLES)
    try:
        while (passed := time.monotonic() - began) < 60 * MINUTES:
            _visit(server, chance)
            visits += 1
            if passed - sampled >= step:
                sampled = passed
                memory.append((passed, server.memory()))
    finally:
        server.stop()
    _check(memory)
    server.check_log()
    return visits


def _visit(server: Server, chance: random.Random) -> None:
    guest = Guest(server)
    try:
        guest.arrive()
        for _ in range(chance.randint(1, 4)):
            chance.choice((_speak, _speak, _keep, _upload, _nonsense, _leave))(guest, chance)
        if chance.random() < 0.5:
            guest.event("click", "rp-forget-sure", [guest.token])
    except httpx.HTTPStatusError as error:
        if error.response.status_code not in (413, 429, 503):
            raise
    finally:
        guest.http.close()


def _speak(guest: Guest, chance: random.Random) -> None:
    guest.speak("The rain has stopped. " * chance.randint(1, 5), guest.sample())


def _keep(guest: Guest, chance: random.Random) -> None:
    guest.press("remove", id=guest.keep_voice(f"Voice {chance.random()}"))


def _upload(guest: Guest, chance: random.Random) -> None:
    guest.upload(clip() * chance.randint(1, 4))


def _nonsense(guest: Guest, chance: random.Random) -> None:
    function = chance.choice([each for each in guest.config["dependencies"] if not each["queue"]])
    guest.call(function["id"], ["x" * chance.randint(0, 10_000)] * len(function["inputs"]), {"id": None})


def _leave(guest: Guest, chance: random.Random) -> None:
    guest.begin_take("The rain has stopped. " * 20).close()


def _check(memory: list[tuple[float, int]]) -> None:
    """Check that the last quarter's median is at most 10 % above the first quarter's."""
    kept = [held for passed, held in memory if passed >= WARMING * 60 * MINUTES]
    if len(kept) < 4:
        raise Broken(f"{MINUTES:g} minutes are too short for a result: {len(kept)} samples.")
    quarter = max(1, len(kept) // 4)
    first, last = (sorted(part)[len(part) // 2] for part in (kept[:quarter], kept[-quarter:]))
    print(f"  soak: {first >> 20} MiB, at the end {last >> 20} MiB, at most {max(kept) >> 20} MiB", flush=True)
    if last > first * (1 + GROWTH):
        raise Broken(f"In {MINUTES:g} minutes of mixed load the server grew from {first >> 20} to {last >> 20} MiB.")


SOAK = Attack("soak", "memory within 10 % under mixed load", _cases, soak, 1, 60 * MINUTES + 300, None, alone=True)
