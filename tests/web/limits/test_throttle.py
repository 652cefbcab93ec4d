"""Back-off of logins, on a fake clock."""

import pytest

from tests.support.clock import Clock
from web.limits.throttle import ADDRESS, ATTACK, FORGOTTEN, PAIR, PAIR_THAT_LOGGED_IN, LoginThrottle

HOME, ELSEWHERE = "192.0.2.1", "198.51.100.1"


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000.0)


@pytest.fixture
def throttle(clock: Clock) -> LoginThrottle:
    return LoginThrottle(clock)


def fail(throttle: LoginThrottle, clock: Clock, account: str, address: str, times: int) -> float:
    """Make `times` wrong tries, each as soon as it is allowed; return the time they took."""
    before = clock.now
    for _ in range(times):
        if wait := throttle.begin(account, address):
            clock.now += wait
            assert throttle.begin(account, address) == 0
    return clock.now - before


def test_delays_double_between_wrong_tries(throttle: LoginThrottle, clock: Clock) -> None:
    assert fail(throttle, clock, "anna", HOME, PAIR.free) == 0
    waits = [fail(throttle, clock, "anna", HOME, 1) for _ in range(12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


def test_delayed_tries_do_not_count(throttle: LoginThrottle, clock: Clock) -> None:
    fail(throttle, clock, "anna", HOME, PAIR.free)
    assert {throttle.begin("anna", HOME) for _ in range(100)} == {1.0}
    clock.now += 0.75
    assert throttle.begin("anna", HOME) == 0.25
    clock.now += 0.25
    assert throttle.begin("anna", HOME) == 0


def test_concurrent_tries_are_limited_like_sequential_ones(throttle: LoginThrottle) -> None:
    begun = [throttle.begin("anna", HOME) == 0 for _ in range(100)]
    assert sum(begun) == PAIR.free


def test_success_resets_the_pair(throttle: LoginThrottle, clock: Clock) -> None:
    fail(throttle, clock, "anna", HOME, PAIR.free + 4)
    assert fail(throttle, clock, "anna", HOME, 1) == 16  # this try has the right password
    throttle.succeeded("anna", HOME)
    assert [throttle.begin("anna", HOME) for _ in range(3)] == [0, 0, 0]


def test_tries_of_an_address_over_many_accounts_are_bounded(throttle: LoginThrottle, clock: Clock) -> None:
    for number in range(ADDRESS.free):
        assert throttle.begin(f"user {number}", HOME) == 0
    assert throttle.begin("another", HOME) == 1
    assert throttle.begin("another", ELSEWHERE) == 0


def test_own_login_does_not_reset_the_address(throttle: LoginThrottle, clock: Clock) -> None:
    for number in range(ADDRESS.free - 1):
        assert throttle.begin(f"user {number}", HOME) == 0
        assert throttle.begin("mine", HOME) == 0
        throttle.succeeded("mine", HOME)
    assert throttle.begin("one more", HOME) == 0
    assert throttle.begin("another", HOME) > 0
    assert throttle.begin("mine", HOME) == 0, "an account that logged in from here is not delayed"


def attack(throttle: LoginThrottle, clock: Clock, account: str, tries: int = ATTACK) -> None:
    for number in range(tries):
        fail(throttle, clock, account, f"203.0.{number // 256}.{number % 256}", 1)


def test_account_under_attack_still_admits_its_user(throttle: LoginThrottle, clock: Clock) -> None:
    assert throttle.begin("anna", HOME) == 0
    throttle.succeeded("anna", HOME)
    attack(throttle, clock, "anna", 1_000)
    assert throttle.begin("anna", ELSEWHERE) == 0, "the first try from a new address is never delayed"
    assert throttle.begin("anna", ELSEWHERE) == 30, "the second is, and longer than otherwise"
    assert [throttle.begin("anna", HOME) for _ in range(PAIR_THAT_LOGGED_IN.free)] == [0] * PAIR_THAT_LOGGED_IN.free


def test_known_pair_waits_at_most_thirty_seconds(throttle: LoginThrottle, clock: Clock) -> None:
    throttle.begin("anna", HOME)
    throttle.succeeded("anna", HOME)
    fail(throttle, clock, "anna", HOME, 40)
    assert throttle.begin("anna", HOME) == 30


def test_counts_expire(throttle: LoginThrottle, clock: Clock) -> None:
    fail(throttle, clock, "anna", HOME, PAIR.free + 20)
    clock.now += FORGOTTEN
    assert fail(throttle, clock, "anna", HOME, PAIR.free) == 0


def test_memory_is_bounded_and_holds_no_names(clock: Clock) -> None:
    throttle = LoginThrottle(clock, limit=50)
    for number in range(500):
        throttle.begin(f"typed in the wrong field {number}\udcff", f"203.0.{number // 256}.{number % 256}")
        throttle.succeeded(f"user {number}", HOME)
    tables = (throttle._pairs, throttle._addresses, throttle._accounts, throttle._known)
    assert all(len(table) <= 50 for table in tables)
    assert "typed" not in repr([table.__dict__ for table in tables[:3]]) + repr(throttle._known)
