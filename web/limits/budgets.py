"""Limits on each visitor's concurrent and hourly use, checked before any work begins.

    with context.budgets.reserve_take(owner, speaking_time(text), texts) as reservation:
        ...
        reservation.spoken = take.seconds

All limits are in this file. The local owner has none. A client cannot create accounts, but it can create any number of
`browser` owners, so these are also limited by address.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from engine.errors import RepriseError

if TYPE_CHECKING:
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

HOUR = 3600.0
LEAST = 1.0  # minimum seconds of speech that a take counts for


@dataclass(frozen=True)
class Limits:
    """Limits of one owner or one address; None: unlimited.

    takes: running and waiting takes. scripts: scripts being spoken. minutes: minutes of speech in one take. hourly:
    minutes of speech in takes within an hour.
    """

    takes: int | None = None
    scripts: int | None = None
    minutes: float | None = None
    hourly: float | None = None


NO_LIMITS = Limits()
ACCOUNT = Limits(takes=4, scripts=4, minutes=30)
BROWSER = Limits(takes=4, scripts=2, minutes=30, hourly=60)
ADDRESS = Limits(takes=8, scripts=4, hourly=240)
OWNERS = {"local": NO_LIMITS, "user": ACCOUNT, "hub": ACCOUNT, "browser": BROWSER}
TAKES = 64  # running and waiting, of all visitors
SCRIPTS = 32  # of all visitors


class BudgetExceeded(RepriseError):
    """A visitor exceeds a limit. wait: seconds until there is room again, None if unknown."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class PoolFull(BudgetExceeded):
    """The queue of a worker pool is full (`web.limits.worker_pool`)."""

    def __init__(self) -> None:
        super().__init__("budget.files")


@dataclass(eq=False)
class Reservation:
    """An admitted take. expected, spoken: seconds of speech. `expected` counts until the take ends, then `spoken`."""

    expected: float
    quotas: tuple[_Quota, ...]
    spoken: float = 0.0


@dataclass(frozen=True)
class _Quota:
    """An owner or address that usage is charged to, with its limits."""

    key: tuple[str, str]
    limits: Limits


@dataclass(eq=False)
class _Ledger:
    """Usage. takes: running. spent: end time and seconds of each finished take. scripts: number being spoken."""

    takes: set[Reservation] = field(default_factory=set)
    spent: deque[tuple[float, float]] = field(default_factory=deque)
    scripts: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.takes or self.spent or self.scripts)


class Budgets:
    """Admits takes and scripts. Thread-safe."""

    def __init__(
        self,
        owners: Mapping[str, Limits] = OWNERS,
        address: Limits = ADDRESS,
        *,
        takes: int = TAKES,
        scripts: int = SCRIPTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """owners: limits by kind of owner. address: limits per address of `browser` owners. takes, scripts: in all."""
        self._owners, self._address = dict(owners), address
        self._most = {"takes": takes, "scripts": scripts}
        self._clock = clock
        self._lock = threading.Lock()
        self._ledgers: OrderedDict[tuple[str, str], _Ledger] = OrderedDict()  # least recently used first
        self._now: Counter[str] = Counter()

    @contextmanager
    def reserve_take(self, owner: Owner, seconds: float, texts: Texts) -> Iterator[Reservation]:
        """Reserve a take for the duration of the block. seconds: expected speech. Raises BudgetExceeded."""
        reservation = Reservation(max(LEAST, seconds), self._quotas(owner))
        with self._lock:
            self._check_length(reservation, texts)
            self._check_takes(reservation, texts)
            self._check_hour(reservation, texts)
            self._now["takes"] += 1
            for quota in reservation.quotas:
                self._ledger(quota).takes.add(reservation)
        try:
            yield reservation
        finally:
            self._settle(reservation)

    def reserve_script(self, owner: Owner, texts: Texts) -> Callable[[], None]:
        """Reserve a script; return an idempotent function that releases it. Raises BudgetExceeded."""
        quotas = self._quotas(owner)
        with self._lock:
            for quota in quotas:
                most = quota.limits.scripts
                if most is not None and self._ledger(quota).scripts >= most:
                    raise BudgetExceeded(texts("budget.scripts", most=most))
            if self._now["scripts"] >= self._most["scripts"]:
                raise BudgetExceeded(texts("speech.busy"))
            self._count_script(quotas, 1)
        over = threading.Event()

        def end() -> None:
            with self._lock:
                if not over.is_set():
                    over.set()
                    self._count_script(quotas, -1)

        return end

    def _quotas(self, owner: Owner) -> tuple[_Quota, ...]:
        quota = _Quota(("owner", owner.key), self._owners[owner.kind])
        if owner.kind != "browser" or not owner.address:
            return (quota,)
        return quota, _Quota(("address", owner.address), self._address)

    def _check_length(self, reservation: Reservation, texts: Texts) -> None:
        for quota in reservation.quotas:
            most = quota.limits.minutes
            if most is not None and reservation.expected > 60 * most:
                minutes = math.ceil(reservation.expected / 60)
                raise BudgetExceeded(texts("budget.minutes", minutes=minutes, most=most))

    def _check_takes(self, reservation: Reservation, texts: Texts) -> None:
        for quota in reservation.quotas:
            most = quota.limits.takes
            if most is not None and len(self._ledger(quota).takes) >= most:
                own = quota.key[0] == "owner"
                raise BudgetExceeded(texts("budget.takes", most=most) if own else texts("budget.network", most=most))
        if self._now["takes"] >= self._most["takes"]:
            raise BudgetExceeded(texts("speech.busy"))

    def _check_hour(self, reservation: Reservation, texts: Texts) -> None:
        wait = max(self._wait(quota, reservation.expected) for quota in reservation.quotas)
        if wait:
            raise BudgetExceeded(texts("budget.hourly", minutes=math.ceil(wait / 60)), wait)

    def _wait(self, quota: _Quota, seconds: float) -> float:
        """Return the wait in seconds until there is room for this many more seconds of speech."""
        if quota.limits.hourly is None:
            return 0.0
        now, ledger = self._clock(), self._ledger(quota)
        spends = [*ledger.spent, *((now, each.expected) for each in ledger.takes)]
        over = sum(spent for _, spent in spends) + seconds - 60 * quota.limits.hourly
        wait = 0.0
        for ended, spent in spends:
            if over <= 0:
                break
            over -= spent
            wait = ended + HOUR - now
        return wait

    def _settle(self, reservation: Reservation) -> None:
        with self._lock:
            now = self._clock()
            self._now["takes"] -= 1
            for quota in reservation.quotas:
                ledger = self._ledger(quota)
                ledger.takes.discard(reservation)
                if quota.limits.hourly is not None:
                    ledger.spent.append((now, max(LEAST, reservation.spoken)))

    def _count_script(self, quotas: tuple[_Quota, ...], count: int) -> None:
        self._now["scripts"] += count
        for quota in quotas:
            self._ledger(quota).scripts += count

    def _ledger(self, quota: _Quota) -> _Ledger:
        """Return the ledger of a quota. Also checks the two least recently used ledgers and drops empty ones."""
        ledger = self._ledgers.setdefault(quota.key, _Ledger())
        for key in list(islice(self._ledgers, 2)):
            self._forget(self._ledgers[key])
            if self._ledgers[key].is_empty and key != quota.key:
                del self._ledgers[key]
            else:
                self._ledgers.move_to_end(key)
        self._forget(ledger)
        return ledger

    def _forget(self, ledger: _Ledger) -> None:
        """Drop usage older than an hour."""
        now = self._clock()
        while ledger.spent and ledger.spent[0][0] + HOUR <= now:
            ledger.spent.popleft()
