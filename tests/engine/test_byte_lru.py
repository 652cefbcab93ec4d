"""`ByteLRU` against a simple model of a cache."""

import threading
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.byte_lru import ByteLRU

KEYS = st.integers(0, 7)


class LRUMachine(RuleBasedStateMachine):
    """The model is a list of (key, value, bytes), least recently used first."""

    @initialize(limit=st.integers(0, 60))
    def begin(self, limit: int) -> None:
        self.cache: ByteLRU[int, str] = ByteLRU(limit)
        self.model: list[tuple[int, str, int]] = []
        self.puts = 0

    def take(self, key: int) -> tuple[int, str, int] | None:
        found = next((entry for entry in self.model if entry[0] == key), None)
        self.model = [entry for entry in self.model if entry[0] != key]
        return found

    @rule(key=KEYS, nbytes=st.integers(0, 25))
    def put(self, key: int, nbytes: int) -> None:
        self.puts += 1
        self.take(key)
        self.model.append((key, f"value {self.puts}", nbytes))
        gone = []
        if nbytes > self.cache.limit:
            gone.append(self.model.pop())
        while sum(entry[2] for entry in self.model) > self.cache.limit:
            gone.append(self.model.pop(0))
        assert self.cache.put(key, f"value {self.puts}", nbytes) == [entry[:2] for entry in gone]

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        found = self.take(key)
        if found is not None:
            self.model.append(found)
        assert self.cache.get(key) == (found and found[1])

    @rule(key=KEYS)
    def pop(self, key: int) -> None:
        found = self.take(key)
        assert self.cache.pop(key) == (found and found[1])

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.model = []

    @invariant()
    def cache_equals_model(self) -> None:
        assert self.cache.nbytes == sum(entry[2] for entry in self.model) <= self.cache.limit


LRUMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40)
TestLRU = LRUMachine.TestCase


def test_least_recently_used_entry_is_evicted_first() -> None:
    cache: ByteLRU[str, int] = ByteLRU(30)
    for number, key in enumerate("abc"):
        assert cache.put(key, number, 10) == []
    assert cache.get("a") == 0
    assert cache.put("d", 3, 15) == [("b", 1), ("c", 2)]
    assert (cache.get("a"), cache.get("b"), cache.nbytes) == (0, None, 25)


def test_a_value_computed_before_others_were_removed_is_not_cached() -> None:
    cache: ByteLRU[str, int] = ByteLRU(30)
    removals: tuple[Callable[[], object], ...] = (
        cache.clear,
        lambda: cache.pop("a"),
        lambda: cache.drop_where(lambda _key, _value: False),
    )
    for remove in removals:
        drops = cache.drops
        remove()
        assert cache.put("b", 1, 10, drops=drops) == [("b", 1)]
        assert cache.get("b") is None
    assert cache.put("b", 1, 10, drops=cache.drops) == []
    assert cache.get("b") == 1


@given(st.integers(0, 20), st.integers(1, 20))
def test_value_above_the_limit_is_returned_without_eviction(limit: int, above: int) -> None:
    cache: ByteLRU[str, str] = ByteLRU(limit)
    cache.put("small", "kept", limit)
    assert cache.put("big", "refused", limit + above) == [("big", "refused")]
    assert cache.get("small") == "kept"
    assert cache.get("big") is None


def test_put_replaces_the_old_value_of_a_key() -> None:
    cache: ByteLRU[str, str] = ByteLRU(10)
    cache.put("key", "old", 4)
    assert cache.put("key", "new", 8) == []
    assert (cache.get("key"), cache.nbytes) == ("new", 8)
    assert cache.put("key", "too big", 11) == [("key", "too big")]
    assert (cache.get("key"), cache.nbytes) == (None, 0)


def test_concurrent_use_loses_no_value_and_keeps_nbytes_right() -> None:
    """Each value is cached, was evicted, or was popped: exactly one of the three."""
    cache: ByteLRU[tuple[int, int], tuple[int, int]] = ByteLRU(500)
    returned: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    together = threading.Barrier(4)

    def work(mine: int) -> None:
        together.wait()
        for turn in range(500):
            key = (mine, turn)
            returned[mine] += [value for _, value in cache.put(key, key, 1 + turn % 40)]
            cache.get(((mine + 1) % 4, turn))
            if turn % 3 == 0 and (popped := cache.pop((mine, turn - 1))) is not None:
                returned[mine].append(popped)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [(mine, turn) for mine in range(4) for turn in range(500)]
    inside = [key for key in everything if cache.get(key) is not None]
    assert sorted(inside + [key for part in returned for key in part]) == everything
    assert cache.nbytes == sum(1 + turn % 40 for _, turn in inside) <= 500


def test_a_value_is_computed_once_while_it_is_cached() -> None:
    cache: ByteLRU[str, bytes] = ByteLRU(10)
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"value")
        return made[-1]

    for _ in range(2):
        assert cache.computed("a", make, len) == b"value"
    assert len(made) == 1
    assert cache.nbytes == 5


def test_a_value_that_is_computed_while_values_are_removed_is_not_cached() -> None:
    cache: ByteLRU[str, bytes] = ByteLRU(10)

    def make() -> bytes:
        cache.pop("a")
        return b"value"

    assert cache.computed("a", make, len) == b"value"
    assert cache.get("a") is None
