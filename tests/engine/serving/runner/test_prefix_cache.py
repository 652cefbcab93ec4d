"""Entries move to host memory in a thread of their own, and can be used and dropped meanwhile."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.prompt import Prompt
from engine.serving.device import own_stream
from engine.serving.runner import prefix_cache as module
from engine.serving.runner.prefix_cache import PrefixCache
from tests.support.waiting import until

VOICES = [torch.full((2, 3), i) for i in range(3)]


def two_tiers() -> PrefixCache:
    """Make a cache of one entry on the device and ten in host memory, as on a GPU."""
    kept = PrefixCache(torch.device("cpu"), 100, 0)
    kept._on_host.limit = 1000
    return kept


def values(voice: int) -> Tensor:
    return torch.full((4, 5), float(voice))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_evicted_prefixes_move_to_host_memory_and_back() -> None:
    kept = two_tiers()
    for i, columns in enumerate(VOICES):
        kept.put(columns, values(i))
        until(lambda: not kept._moving)
    assert kept.nbytes == (80, 160)
    back = kept.get(VOICES[0])
    assert back is not None
    assert torch.equal(back, values(0))
    until(lambda: kept.nbytes == (80, 160))
    assert kept.get(torch.full((3, 2), 0)) is None  # the same values in another shape


def test_moving_prefix_is_found_without_waiting(gate: threading.Event) -> None:
    kept = two_tiers()
    kept._mover.submit(gate.wait)
    first = values(0)
    kept.put(VOICES[0], first)
    kept.put(VOICES[1], values(1))
    assert kept.get(VOICES[0]) is first
    gate.set()
    until(lambda: kept.nbytes == (80, 80))
    assert kept.get(VOICES[0]) is first
    assert kept._on_host.get(module._key(VOICES[0])) is None


def test_moving_prefixes_take_no_more_than_the_device_budget(gate: threading.Event) -> None:
    kept = two_tiers()
    kept._mover.submit(gate.wait)
    for i, columns in enumerate(VOICES):
        kept.put(columns, values(i))
    assert len(kept._moving) == 1
    assert kept.get(VOICES[1]) is None
    gate.set()
    until(lambda: kept.nbytes == (80, 80))


def test_prefix_dropped_before_it_moves_is_not_copied(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, copied = two_tiers(), list[Tensor]()
    monkeypatch.setattr(module, "_host_copy", lambda prefix, *_: copied.append(prefix))
    kept._mover.submit(gate.wait)
    kept.put(VOICES[0], values(0))
    kept.put(VOICES[1], values(1))
    kept.drop(VOICES[0])
    gate.set()
    kept._mover.submit(lambda: None).result()
    assert not copied


def test_prefix_dropped_while_it_moves_is_not_kept(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, moving, usual = two_tiers(), threading.Event(), module._host_copy

    def slow(*given: Any) -> Tensor:
        moving.set()
        gate.wait()
        return usual(*given)

    monkeypatch.setattr(module, "_host_copy", slow)
    kept._on_device.limit = 160
    spoken = Prompt(torch.full((2, 3), 7), generated_ranges=((1, 3),))
    kept.put(VOICES[0], values(0))
    key = kept.stash(spoken, values(7))
    kept.put(VOICES[1], values(1))
    kept.put(VOICES[2], values(2))
    assert len(kept._moving) == 2
    moving.wait()
    kept.drop(VOICES[0])
    kept.drop_stash(key)
    gate.set()
    kept._mover.submit(lambda: None).result()
    assert kept.nbytes == (160, 0)
    assert kept.get(VOICES[0]) is None
    assert kept.unstash(spoken) is None


@pytest.mark.parametrize("limit", [0, 79])
def test_prefix_above_the_devices_budget_stays_in_host_memory(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of moving there again after every use."""
    moved, usual = [], module._host_copy
    monkeypatch.setattr(module, "_host_copy", lambda *given: moved.append(1) or usual(*given))
    kept = two_tiers()
    kept._on_device.limit = limit
    kept.put(VOICES[0], values(0))
    until(lambda: kept.nbytes == (0, 80))
    for _ in range(5):
        found = kept.get(VOICES[0])
        assert found is not None
        assert torch.equal(found, values(0))
        assert kept.nbytes == (0, 80)
    assert len(moved) == 1
    kept.drop(VOICES[0])
    assert kept.get(VOICES[0]) is None


def test_large_prefix_that_is_moving_is_moved_once(gate: threading.Event) -> None:
    kept = two_tiers()
    kept._on_device.limit = 0
    kept._mover.submit(gate.wait)
    first = values(0)
    kept.put(VOICES[0], first)
    assert kept.get(VOICES[0]) is first
    gate.set()
    until(lambda: kept.nbytes == (0, 80))
    assert not kept._moving


def test_failed_move_drops_the_prefix(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> Tensor:
        raise MemoryError("no room")

    monkeypatch.setattr(module, "_host_copy", fails)
    kept = two_tiers()
    kept.put(VOICES[0], values(0))
    kept.put(VOICES[1], values(1))
    until(lambda: not kept._moving)
    assert kept.get(VOICES[0]) is None
    assert "no room" in caplog.text


def test_prefix_for_which_the_device_has_no_room_stays_in_host_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept, usual = two_tiers(), Tensor.to
    kept.put(VOICES[0], values(0))
    kept.put(VOICES[1], values(1))
    until(lambda: not kept._moving)

    def to(tensor: Tensor, place: Any, *given: Any, **named: Any) -> Tensor:
        if place is kept._device:
            raise torch.OutOfMemoryError("no room")
        return usual(tensor, place, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "to", to)
        assert kept.get(VOICES[0]) is None
    assert "no room" in caplog.text
    found = kept.get(VOICES[0])
    assert found is not None
    assert torch.equal(found, values(0))


def test_moves_use_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch has 32 streams. A move on a stream that is being captured would become a part of the graph."""

    class Stream:
        def record_event(self) -> None:
            pass

    def copy(prefix: Tensor, _computed: None, stream: Stream) -> Tensor:
        used.append(stream)
        return prefix

    made, used = list[Stream](), list[Stream]()
    monkeypatch.setattr(module, "new_stream", lambda *_, **__: made.append(Stream()) or made[-1])
    monkeypatch.setattr(module, "_host_copy", copy)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: Stream())
    kept = PrefixCache(torch.device("cuda:0"), 100, 1000)
    for i, columns in enumerate(VOICES):
        kept.put(columns, values(i))
    until(lambda: kept.nbytes == (80, 160))
    assert used == 2 * made
    assert len(made) == 1


@pytest.mark.gpu
def test_prefixes_move_to_host_memory_beside_work_of_a_gpu() -> None:
    device = torch.device("cuda:0")
    kept, total = PrefixCache(device, 100, 1000), torch.zeros((), device=device)
    with own_stream(device, urgent=True):
        for i, columns in enumerate(VOICES):
            kept.put(columns, values(i).to(device, non_blocking=True) + total)  # the last kernel may still run
        until(lambda: kept.nbytes == (80, 160))
        for i, columns in enumerate(VOICES):
            back = kept.get(columns)
            assert back is not None
            assert torch.equal(back.cpu(), values(i))
