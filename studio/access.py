"""Authentication and limits of programs that call the server.

    caller = access.admit(key, local=False)   # raises KeyRefused
    access.count_request(caller)              # raises LimitReached
    caller = access.admit_again(caller)       # before each reply of an open session; raises both
    access.spend(caller, len(text))           # raises LimitReached

While there is no key, programs on this machine may call without one, as the local owner. An expired key still counts,
because the passing of time must not give access to anyone; revoking the last key does.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from engine.errors import RepriseError
from storage.errors import DatabaseUnavailable
from storage.validation import LOCAL

if TYPE_CHECKING:
    from storage.api_keys import Allowance, ApiKeys, KeyRecord

log = logging.getLogger(__name__)

NO_KEY = (
    "This server needs an API key: send it as “Authorization: Bearer rp-…”. The operator creates one with "
    "“python app.py keys create NAME”."
)
WRONG_KEY = (
    "This key is not valid: it was revoked, has expired, or was never created here. Ask this server's operator for one."
)


class KeyRefused(RepriseError):
    """The caller has no valid key and needs one."""


class LimitReached(RepriseError):
    """The caller's rate or quota is used up.

    wait: seconds until the next request; None if waiting does not help. quota: whether it is the quota.
    """

    def __init__(self, message: str, wait: float | None, *, quota: bool) -> None:
        super().__init__(message)
        self.wait, self.quota = wait, quota


@dataclass(frozen=True)
class Caller:
    """A program. owner: the owner of the voices it can use. key: None for a program on this machine without one.

    voices: ids or names of voices by the program's own aliases, in lower case, as in `KeyRecord`.
    """

    owner: str = LOCAL
    key: KeyRecord | None = None
    voices: Mapping[str, str] = field(default_factory=dict)


class Access:
    """Admits callers and enforces their limits. Thread-safe; methods block on the database."""

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys
        self._rates = MovingWindowRateLimiter(MemoryStorage())

    def admit(self, key: str | None, *, local: bool) -> Caller:
        """Return the caller with this key. key: None if the call has none.

        local: whether the call came from this machine and not from a foreign web page. Raises KeyRefused.
        """
        record = self._keys.find(key) if key else None
        if record is not None:
            return _caller(record)
        if local and not self._keys.any():  # whatever the key: some clients cannot omit it
            return Caller()
        raise KeyRefused(WRONG_KEY if key else NO_KEY)

    def admit_again(self, caller: Caller) -> Caller:
        """Return a caller as its key allows now, for a further request on one connection, which counts against its
        rate. Raises KeyRefused if the key was revoked or has expired, LimitReached.
        """
        if caller.key is not None:
            record = self._keys.get(caller.key.id)
            if record is None:
                raise KeyRefused(WRONG_KEY)
            caller = _caller(record)
        self.count_request(caller)
        return caller

    def count_request(self, caller: Caller) -> None:
        """Count a request against the caller's rate. Raises LimitReached."""
        if caller.key is None or caller.key.rate is None:
            return
        rate = RateLimitItemPerSecond(caller.key.rate.amount, caller.key.rate.seconds)
        if not self._rates.hit(rate, caller.key.id):
            wait = max(1.0, self._rates.get_window_stats(rate, caller.key.id).reset_time - time.time())
            if wait > caller.key.rate.seconds + 1:  # the clock was set back since
                self._rates.clear(rate, caller.key.id)
                return
            raise LimitReached(
                f"This key allows {describe_allowance(caller.key.rate, 'request')}; try again in {math.ceil(wait)} s.",
                wait,
                quota=False,
            )

    def spend(self, caller: Caller, characters: int) -> None:
        """Count characters to be spoken against the caller's quota. Raises LimitReached."""
        if caller.key is None or caller.key.quota is None:
            return
        if not self._keys.spend(caller.key.id, characters):
            seconds = caller.key.quota.seconds
            wait = seconds - time.time() % seconds
            allowed = describe_allowance(caller.key.quota, "character")
            if characters > caller.key.quota.amount:
                raise LimitReached(
                    f"This key allows {allowed}, and the text has {characters:,}: shorten it.", None, quota=True
                )
            raise LimitReached(
                f"This key allows {allowed}, and these {characters:,} are more than is left of them.", wait, quota=True
            )

    @contextmanager
    def spending(self, caller: Caller, characters: int) -> Iterator[None]:
        """Like `spend`, as a context manager: the characters are refunded if the block raises."""
        self.spend(caller, characters)
        try:
            yield
        except Exception:
            self.refund(caller, characters)
            raise

    def refund(self, caller: Caller, characters: int) -> None:
        """Return characters of a refused request to the caller's quota.

        A failure is only logged, because the caller is told why the request was refused.
        """
        if caller.key is None or caller.key.quota is None:
            return
        try:
            self._keys.spend(caller.key.id, -characters)
        except DatabaseUnavailable as error:
            log.warning("%d characters of a refused request stay counted. %s %s", characters, error, error.detail)


def _caller(key: KeyRecord) -> Caller:
    return Caller(key.owner, key, {alias.lower(): target for alias, target in key.voices.items()})


_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def describe_allowance(allowance: Allowance, what: str) -> str:
    """Describe an allowance: "60 requests in 1 minute"."""
    size, unit = next((size, unit) for size, unit in _UNITS if allowance.seconds % size == 0)
    count = allowance.seconds // size
    return f"{allowance.amount:,} {what}{'s' * (allowance.amount != 1)} in {count} {unit}{'s' * (count != 1)}"
