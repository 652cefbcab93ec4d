"""Exponential back-off of logins after wrong passwords.

Attempts are counted by (account, address), by address, and by account. An attacker cannot lock out others: attempts
from elsewhere never delay the first attempt from a new address, nor any from an address that has logged in to the
account before. Users who share an address with an attacker may have to wait.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LIMIT = 10_000  # entries per table
FORGOTTEN = 3600.0  # seconds after the last attempt


@dataclass(frozen=True)
class BackOff:
    """Delays between attempts: the first `free` have none, the next `first` seconds, then doubling up to `most`."""

    free: int
    first: float
    most: float

    def delay(self, failures: int) -> float:
        """Return the minimum seconds between the last failed attempt and the next."""
        if failures < self.free:
            return 0.0
        return min(self.most, self.first * 2.0 ** min(failures - self.free, 30))


PAIR = BackOff(free=3, first=1.0, most=900.0)
PAIR_THAT_LOGGED_IN = BackOff(free=10, first=1.0, most=30.0)
PAIR_UNDER_ATTACK = BackOff(free=1, first=30.0, most=900.0)
ADDRESS = BackOff(free=10, first=1.0, most=60.0)
ATTACK = 20  # failed attempts at an account, from any address


@dataclass
class _Tally:
    failures: int = 0
    last: float = -math.inf  # seconds on the clock


class _Table:
    """Failure counts by key. Beyond the limit, the key with the oldest attempt is dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tallies: OrderedDict[bytes, _Tally] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tallies)

    def failures(self, key: bytes, now: float) -> int:
        tally = self._tallies.get(key)
        return tally.failures if tally and now - tally.last < FORGOTTEN else 0

    def wait(self, key: bytes, now: float, back_off: BackOff) -> float:
        """Return the seconds until the next attempt is allowed."""
        tally = self._tallies.get(key)
        return max(0.0, tally.last + back_off.delay(self.failures(key, now)) - now) if tally else 0.0

    def count(self, key: bytes, now: float) -> None:
        self._tallies[key] = _Tally(self.failures(key, now) + 1, now)
        self._tallies.move_to_end(key)
        if len(self._tallies) > self._limit:
            self._tallies.popitem(last=False)

    def take_back(self, key: bytes) -> None:
        if tally := self._tallies.get(key):
            tally.failures = max(0, tally.failures - 1)

    def forget(self, key: bytes) -> None:
        self._tallies.pop(key, None)


class LoginThrottle:
    """Delays logins. Stores only keyed hashes of names and addresses.

    Not thread-safe: for use on the server's event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, limit: int = LIMIT) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._pairs, self._addresses, self._accounts = _Table(limit), _Table(limit), _Table(limit)
        self._known: OrderedDict[bytes, None] = OrderedDict()  # pairs that have logged in
        self._limit = limit

    def begin(self, account: str, address: str) -> float:
        """Return the seconds that an attempt has to wait. At 0 it may proceed, and counts as failed until `succeeded`.

        It counts immediately, so that concurrent attempts count like consecutive ones. Delayed attempts do not count.
        address: from `client_address`, so that one visitor has one.
        """
        now = self._clock()
        pair, at, user = self._keys(account, address)
        wait = self._wait(pair, at, user, now)
        if wait == 0:
            self._pairs.count(pair, now)
            self._addresses.count(at, now)
            self._accounts.count(user, now)
        return wait

    def succeeded(self, account: str, address: str) -> None:
        """Clear the failures of the pair, and subtract this attempt from the other counts."""
        pair, at, user = self._keys(account, address)
        self._pairs.forget(pair)
        self._addresses.take_back(at)
        self._accounts.take_back(user)
        self._known[pair] = None
        self._known.move_to_end(pair)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def _wait(self, pair: bytes, at: bytes, user: bytes, now: float) -> float:
        if pair in self._known:
            return self._pairs.wait(pair, now, PAIR_THAT_LOGGED_IN)
        attacked = self._accounts.failures(user, now) >= ATTACK
        back_off = PAIR_UNDER_ATTACK if attacked else PAIR
        return max(self._pairs.wait(pair, now, back_off), self._addresses.wait(at, now, ADDRESS))

    def _keys(self, account: str, address: str) -> tuple[bytes, bytes, bytes]:
        return self._key(account, address), self._key("", address), self._key(account, "")

    def _key(self, *parts: str) -> bytes:
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._secret, digest_size=16).digest()
