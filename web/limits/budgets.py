"""What one visitor may have of the server at once and in an hour, checked before any work begins.

    with house.budgets.take(owner, speaking_time(text), words) as spending:
        ...
        spending.spoken = take.seconds

All limits stand in this file. The local owner has the machine; people with accounts cannot be invented; owners that a
browser brings can, so that they are also limited by the address that they come from.
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
    from web.ui.i18n import Words

HOUR = 3600.0
BUSY = "The server is still busy with other files. Try again in a moment."
LEAST = 1.0  # seconds of speech that the shortest take counts for


@dataclass(frozen=True)
class Limits:
    """Of one owner or one address; None: as much as there is.

    takes: running and waiting at once. scripts: being spoken at once. minutes: of speech in one take. hourly: minutes
    of speech in takes within an hour.
    """

    takes: int | None = None
    scripts: int | None = None
    minutes: float | None = None
    hourly: float | None = None


LOCAL = Limits()
ACCOUNT = Limits(takes=4, scripts=4, minutes=30)
BROWSER = Limits(takes=4, scripts=2, minutes=30, hourly=60)
ADDRESS = Limits(takes=8, scripts=4, hourly=240)
OWNERS = {"local": LOCAL, "user": ACCOUNT, "hub": ACCOUNT, "browser": BROWSER}
TAKES = 64  # of all, running and waiting
SCRIPTS = 32  # of all


class OverBudget(RepriseError):
    """A visitor asks for more than a budget has. wait: seconds until there is room again, None where nobody knows."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class PoolFull(OverBudget):
    """As much heavy work of one sort is waiting as may (`web.limits.pools`)."""

    def __init__(self) -> None:
        super().__init__(BUSY)


@dataclass(eq=False)
class Spending:
    """A take that is admitted. expected, spoken: seconds of speech; the first counts until it is over."""

    expected: float
    accounts: tuple[_Account, ...]
    spoken: float = 0.0


@dataclass(frozen=True)
class _Account:
    """One side of a visitor: the owner or the address. limits: that it is held to."""

    key: tuple[str, str]
    limits: Limits


@dataclass(eq=False)
class _Ledger:
    """takes: that are admitted. spent: when each take ended, and its seconds. scripts: being spoken."""

    takes: set[Spending] = field(default_factory=set)
    spent: deque[tuple[float, float]] = field(default_factory=deque)
    scripts: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.takes or self.spent or self.scripts)


class Budgets:
    """Admits takes and scripts, from any thread. What is admitted counts until its `with` block is left."""

    def __init__(
        self,
        owners: Mapping[str, Limits] = OWNERS,
        address: Limits = ADDRESS,
        *,
        takes: int = TAKES,
        scripts: int = SCRIPTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """owners: by the kind of owner. address: of owners that browsers bring. takes, scripts: of all visitors."""
        self._owners, self._address = dict(owners), address
        self._most = {"takes": takes, "scripts": scripts}
        self._clock = clock
        self._lock = threading.Lock()
        self._ledgers: OrderedDict[tuple[str, str], _Ledger] = OrderedDict()  # looked at longest ago first
        self._now: Counter[str] = Counter()

    @contextmanager
    def take(self, owner: Owner, seconds: float, words: Words) -> Iterator[Spending]:
        """Room for a take of about so many seconds of speech. Raises OverBudget."""
        spending = Spending(max(LEAST, seconds), self._accounts(owner))
        with self._lock:
            self._check_length(spending, words)
            self._check_takes(spending, words)
            self._check_hour(spending, words)
            self._now["takes"] += 1
            for account in spending.accounts:
                self._ledger(account).takes.add(spending)
        try:
            yield spending
        finally:
            self._settle(spending)

    def script(self, owner: Owner, words: Words) -> Callable[[], None]:
        """Room for a script to be spoken: to be called when it is over, once or more often. Raises OverBudget."""
        accounts = self._accounts(owner)
        with self._lock:
            for account in accounts:
                most = account.limits.scripts
                if most is not None and self._ledger(account).scripts >= most:
                    raise OverBudget(words("budget.scripts", most=most))
            if self._now["scripts"] >= self._most["scripts"]:
                raise OverBudget(words("speech.busy"))
            self._count_script(accounts, 1)
        over = threading.Event()

        def end() -> None:
            with self._lock:
                if not over.is_set():
                    over.set()
                    self._count_script(accounts, -1)

        return end

    def _accounts(self, owner: Owner) -> tuple[_Account, ...]:
        account = _Account(("owner", owner.key), self._owners[owner.kind])
        if owner.kind != "browser" or not owner.address:
            return (account,)
        return account, _Account(("address", owner.address), self._address)

    def _check_length(self, spending: Spending, words: Words) -> None:
        for account in spending.accounts:
            most = account.limits.minutes
            if most is not None and spending.expected > 60 * most:
                minutes = math.ceil(spending.expected / 60)
                raise OverBudget(words("budget.minutes", minutes=minutes, most=f"{most:g}"))

    def _check_takes(self, spending: Spending, words: Words) -> None:
        for account in spending.accounts:
            most = account.limits.takes
            if most is not None and len(self._ledger(account).takes) >= most:
                own = account.key[0] == "owner"
                raise OverBudget(words("budget.takes", most=most) if own else words("budget.network", most=most))
        if self._now["takes"] >= self._most["takes"]:
            raise OverBudget(words("speech.busy"))

    def _check_hour(self, spending: Spending, words: Words) -> None:
        wait = max(self._wait(account, spending.expected) for account in spending.accounts)
        if wait:
            raise OverBudget(words("budget.hourly", minutes=math.ceil(wait / 60)), wait)

    def _wait(self, account: _Account, seconds: float) -> float:
        """Seconds until the account has room for so many seconds of speech more."""
        if account.limits.hourly is None:
            return 0.0
        now, ledger = self._clock(), self._ledger(account)
        spends = [*ledger.spent, *((now, each.expected) for each in ledger.takes)]
        over = sum(spent for _, spent in spends) + seconds - 60 * account.limits.hourly
        wait = 0.0
        for ended, spent in spends:
            if over <= 0:
                break
            over -= spent
            wait = ended + HOUR - now
        return wait

    def _settle(self, spending: Spending) -> None:
        with self._lock:
            now = self._clock()
            self._now["takes"] -= 1
            for account in spending.accounts:
                ledger = self._ledger(account)
                ledger.takes.discard(spending)
                if account.limits.hourly is not None:
                    ledger.spent.append((now, max(LEAST, spending.spoken)))

    def _count_script(self, accounts: tuple[_Account, ...], count: int) -> None:
        self._now["scripts"] += count
        for account in accounts:
            self._ledger(account).scripts += count

    def _ledger(self, account: _Account) -> _Ledger:
        """The account's. Of the others, one that holds nothing any more is dropped."""
        ledger = self._ledgers.setdefault(account.key, _Ledger())
        for key in list(islice(self._ledgers, 2)):
            self._forget(self._ledgers[key])
            if self._ledgers[key].is_empty and key != account.key:
                del self._ledgers[key]
            else:
                self._ledgers.move_to_end(key)
        self._forget(ledger)
        return ledger

    def _forget(self, ledger: _Ledger) -> None:
        """What was spent more than an hour ago."""
        now = self._clock()
        while ledger.spent and ledger.spent[0][0] + HOUR <= now:
            ledger.spent.popleft()
