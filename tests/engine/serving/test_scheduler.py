"""The scheduler: no slot is lost or used twice, and no ticket is passed over, for any sequence of events."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.errors import EngineBusy
from engine.serving.scheduler import Plan, Scheduler, Ticket


class CheckedScheduler:
    """A scheduler, and a model of its tickets that checks every result."""

    def __init__(self, slots: int, queue: int) -> None:
        self.scheduler = Scheduler(slots, queue)
        self.limit = slots + queue
        self.stages: dict[Ticket, str] = {}  # of open tickets, in order of arrival
        self.slots: dict[Ticket, int] = {}  # of tickets that hold one
        self.last: list[Ticket | None] = [None] * slots  # the last ticket of each slot
        self.owners: dict[Ticket, str] = {}
        self.ring: list[str] = []  # owners with open tickets, least recently served first
        self.passed: dict[str, Counter[str]] = {}  # turns of other owners while an owner waits without a slot

    def tickets(self, *stages: str) -> list[Ticket]:
        return [ticket for ticket, stage in self.stages.items() if stage in stages]

    def enter(self, owner: str = "") -> Ticket | None:
        if len(self.stages) == self.limit:
            with pytest.raises(EngineBusy, match="try again"):
                self.scheduler.enter(owner)
            return None
        ticket = self.scheduler.enter(owner)
        assert all(ticket.number > other.number for other in self.stages)
        self.stages[ticket], self.owners[ticket] = "idle", owner
        if owner not in self.ring:
            self.ring.append(owner)
        return ticket

    def enqueue(self, ticket: Ticket) -> None:
        self.scheduler.enqueue(ticket)
        self.stages[ticket] = "waiting"

    def ready(self, ticket: Ticket) -> None:
        self.scheduler.ready(ticket)
        self.stages[ticket] = "speaking"

    def release(self, ticket: Ticket) -> None:
        self.scheduler.release(ticket)
        self.stages[ticket] = "idle"
        self.slots.pop(ticket, None)

    def leave(self, ticket: Ticket) -> None:
        self.scheduler.leave(ticket)
        del self.stages[ticket]
        if (owner := self.owners.pop(ticket)) not in self.owners.values():
            self.ring.remove(owner)
            self.passed.pop(owner, None)  # a later request begins a new wait
        if (slot := self.slots.pop(ticket, None)) is not None:
            assert ticket.slot == slot  # stays set until the next plan

    def plan(self) -> Plan:
        free = set(range(self.scheduler.slots)) - set(self.slots.values())
        known = {slot for slot in free if self.last[slot] in self.stages}
        waiting = self.tickets("waiting")
        served, ring = self.expected_order(len(free))
        without = [owner for owner in self.ring if not self.held()[owner] and self.waiting_of(owner)]
        plan = self.scheduler.plan()
        assert [ticket for ticket in waiting if ticket.stage == "prefilling"] == sorted(served, key=waiting.index)
        if len(self.ring) == 1:
            assert served == waiting[: len(free)]  # in order of arrival
        self.ring = ring
        self.count_turns(without, served)
        for ticket in served:
            self.check_slot(ticket, free, known, left=free - {other.slot for other in served})
        for ticket in served:
            assert ticket.slot is not None
            self.stages[ticket], self.slots[ticket], self.last[ticket.slot] = "prefilling", ticket.slot, ticket
        assert len(set(self.slots.values())) == len(self.slots)  # no slot is used twice
        self.check_prefill(plan.prefill)
        assert list(plan.speaking) == sorted(self.tickets("speaking"), key=lambda ticket: self.slots[ticket])
        return plan

    def waiting_of(self, owner: str) -> list[Ticket]:
        return [ticket for ticket in self.tickets("waiting") if self.owners[ticket] == owner]

    def held(self) -> Counter[str]:
        """Slots by owner."""
        return Counter(self.owners[ticket] for ticket in self.slots)

    def expected_order(self, count: int) -> tuple[list[Ticket], list[str]]:
        """Return the tickets to be served next, found one by one, and the ring after that."""
        held, ring, served = self.held(), list(self.ring), []
        left = {owner: self.waiting_of(owner) for owner in ring}
        for _ in range(count):
            wanting = [owner for owner in ring if left[owner]]
            if not wanting:
                break
            owner = min(wanting, key=lambda owner: (held[owner], ring.index(owner)))
            served.append(left[owner].pop(0))
            held[owner] += 1
            ring.remove(owner)
            ring.append(owner)
        return served, ring

    def count_turns(self, without: list[str], served: list[Ticket]) -> None:
        """Assert that while an owner waits without a slot, every other owner gets at most one turn."""
        for owner in list(self.passed):
            if owner not in without:
                del self.passed[owner]
        for owner in without:
            passed = self.passed.setdefault(owner, Counter())
            for ticket in served:
                if self.owners[ticket] == owner:
                    del self.passed[owner]
                    break
                passed[self.owners[ticket]] += 1
            assert max(passed.values(), default=0) <= 1

    def check_prefill(self, prefill: tuple[Ticket, ...]) -> None:
        """Assert that all unread prompts are listed, by number within an owner, all owners' first ones first."""
        prefilling = self.tickets("prefilling")
        assert sorted(prefill, key=prefilling.index) == prefilling
        nth: Counter[str] = Counter()
        places = []
        for ticket in prefill:
            places.append(nth[self.owners[ticket]])
            nth[self.owners[ticket]] += 1
        assert places == sorted(places)
        for owner in nth:
            own = [ticket for ticket in prefill if self.owners[ticket] == owner]
            assert own == sorted(own, key=prefilling.index)

    def check_slot(self, ticket: Ticket, free: set[int], known: set[int], left: set[int]) -> None:
        """Assert that the ticket got the right one of the `free` slots; `left` remain free."""
        slot = ticket.slot
        assert slot in free
        own = {slot for slot in free if self.last[slot] is ticket}
        if own:
            assert slot in own
        elif slot in known:
            assert left <= known
            assert all(slot < other for other in left)
        else:
            assert all(slot < other for other in left - known)

    def check(self) -> None:
        assert len(self.scheduler.open_tickets()) == len(self.stages) <= self.limit
        assert self.scheduler.waiting == len(self.tickets("waiting"))
        assert self.scheduler.speaking == len(self.tickets("speaking"))
        for place, ticket in enumerate(self.expected_order(len(self.stages))[0]):
            assert self.scheduler.queue_position(ticket) == place
        for ticket, stage in self.stages.items():
            assert (ticket.stage, ticket.slot) == (stage, self.slots.get(ticket))

    def assert_all_slots_usable(self) -> None:
        """Assert that after all tickets have left, all slots can be filled at once."""
        assert not self.stages
        for _ in range(self.scheduler.slots):
            ticket = self.enter()
            assert ticket is not None
            self.enqueue(ticket)
        self.plan()
        assert sorted(self.slots.values()) == list(range(self.scheduler.slots))


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(1, 4), queue=st.integers(0, 4), owners=st.integers(1, 4))
    def begin(self, slots: int, queue: int, owners: int) -> None:
        self.checked, self.owners = CheckedScheduler(slots, queue), owners

    def has_any(self, *stages: str) -> bool:
        return bool(self.checked.tickets(*stages))

    def pick(self, data: st.DataObject, *stages: str) -> Ticket:
        tickets = self.checked.tickets(*stages)
        return tickets[data.draw(st.integers(0, len(tickets) - 1))]

    @rule(owner=st.integers(0, 3))
    def enter(self, owner: int) -> None:
        self.checked.enter(f"owner {owner % self.owners}")

    @rule()
    def plan(self) -> None:
        self.checked.plan()

    @precondition(lambda self: self.has_any("idle"))
    @rule(data=st.data())
    def enqueue(self, data: st.DataObject) -> None:
        self.checked.enqueue(self.pick(data, "idle"))

    @precondition(lambda self: self.has_any("prefilling"))
    @rule(data=st.data())
    def ready(self, data: st.DataObject) -> None:
        self.checked.ready(self.pick(data, "prefilling"))

    @precondition(lambda self: self.has_any("waiting", "prefilling", "speaking"))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.checked.release(self.pick(data, "waiting", "prefilling", "speaking"))

    @precondition(lambda self: self.checked.stages)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.checked.leave(self.pick(data, "idle", "waiting", "prefilling", "speaking"))

    @invariant()
    def model_agrees(self) -> None:
        self.checked.check()

    def teardown(self) -> None:
        if hasattr(self, "watched"):
            for ticket in list(self.checked.stages):
                self.checked.leave(ticket)
            self.checked.check()
            self.checked.assert_all_slots_usable()


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=25, stateful_step_count=60, deadline=None)


def test_owner_that_left_waits_anew() -> None:
    """The last request of an owner leaves while it waits; its next one ranks after the owners that are present."""
    checked = CheckedScheduler(slots=2, queue=3)

    def enqueued(owner: str) -> Ticket:
        ticket = checked.enter(owner)
        assert ticket is not None
        checked.enqueue(ticket)
        return ticket

    first, _, leaving = map(enqueued, "abc")
    checked.plan()
    assert leaving.stage == "waiting"
    further = enqueued("a")
    checked.leave(first)
    checked.leave(leaving)
    later = enqueued("c")
    checked.plan()
    assert (further.stage, later.stage) == ("prefilling", "waiting")


# --- thousands of requests -----------------------------------------------------------------------------------------


@dataclass
class Request:
    """A simulated request and its remaining turns; `queued` and `served` count its turns."""

    turns: int
    pieces: int = 0
    frames: int = 0
    queued: int = 0
    served: int = 0
    cancelled: bool = False


@dataclass
class Simulation:
    """Simulated requests that arrive at random, speak some turns, and sometimes leave in any stage."""

    checked: CheckedScheduler
    random: random.Random
    requests: dict[Ticket, Request] = field(default_factory=dict)
    finished: list[Request] = field(default_factory=list)
    refused: int = 0
    cancelled_in: Counter[str] = field(default_factory=Counter)

    def arrive(self) -> None:
        ticket = self.checked.enter()
        if ticket is None:
            self.refused += 1
        else:
            self.requests[ticket] = Request(turns=self.random.choice((1, 1, 1, 2, 5)))

    def enqueue(self) -> None:
        for ticket in self.checked.tickets("idle"):
            if self.random.random() < 0.7:
                request = self.requests[ticket]
                request.queued += 1
                request.pieces, request.frames = self.random.randint(1, 3), self.random.randint(1, 12)
                self.checked.enqueue(ticket)

    def cancel(self) -> None:
        for ticket, request in list(self.requests.items()):
            if self.random.random() < 0.01:
                self.cancelled_in[ticket.stage] += 1
                if self.random.random() < 0.2 and ticket.stage != "idle":
                    request.queued -= ticket.stage == "waiting"
                    self.checked.release(ticket)  # this turn only
                else:
                    request.cancelled = True
                    self.leave(ticket)

    def leave(self, ticket: Ticket) -> None:
        self.checked.leave(ticket)
        self.finished.append(self.requests.pop(ticket))

    def step(self) -> None:
        before = set(self.checked.slots)
        plan = self.checked.plan()
        for ticket in set(self.checked.slots) - before:
            self.requests[ticket].served += 1
        for ticket in plan.prefill[:1]:
            self.read_piece(ticket)
        for ticket in plan.speaking:
            self.make_frame(ticket)

    def read_piece(self, ticket: Ticket) -> None:
        request = self.requests[ticket]
        request.pieces -= 1
        if not request.pieces:
            self.checked.ready(ticket)

    def make_frame(self, ticket: Ticket) -> None:
        request = self.requests[ticket]
        request.frames -= 1
        if not request.frames:
            self.checked.release(ticket)
            request.turns -= 1
            if request.turns <= 0:
                self.leave(ticket)


@pytest.mark.parametrize(("slots", "queue", "arrivals"), [(4, 12, 0.5), (1, 3, 0.12), (16, 0, 0.6)])
def test_hundreds_of_simulated_requests(slots: int, queue: int, arrivals: float) -> None:
    simulation = Simulation(CheckedScheduler(slots, queue), random.Random(f"{slots} slots"))
    count = 400
    while len(simulation.finished) + len(simulation.requests) + simulation.refused < count:
        if simulation.random.random() < arrivals:
            simulation.arrive()
        simulation.enqueue()
        simulation.cancel()
        simulation.step()
        simulation.checked.check()
    for _ in range(2000):  # no further arrivals: all are served to the end
        simulation.enqueue()
        simulation.step()
    assert not simulation.requests
    for request in simulation.finished:
        assert request.cancelled or request.turns <= 0
        assert request.served == request.queued or (request.cancelled and request.served == request.queued - 1)
    assert simulation.refused
    assert set(simulation.cancelled_in) >= {"prefilling", "speaking"} | ({"waiting"} if queue else set())
    assert sum(not request.cancelled for request in simulation.finished) > count // 4
    simulation.checked.assert_all_slots_usable()


def test_tickets_may_enter_and_leave_from_any_thread() -> None:
    scheduler = Scheduler(3, 3)
    inbox: list[Ticket] = []  # the engine's thread enqueues these
    most_open, over = [0], threading.Event()

    def listen(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            try:
                ticket = scheduler.enter()
            except EngineBusy:
                continue
            inbox.append(ticket)
            most_open[0] = max(most_open[0], len(scheduler.open_tickets()))
            over.wait(chance.random() * 1e-3)
            scheduler.leave(ticket)
            scheduler.leave(ticket)

    threads = [threading.Thread(target=listen, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        while inbox:
            scheduler.enqueue(inbox.pop())
        plan = scheduler.plan()
        slots: list[Any] = [ticket.slot for ticket in plan.speaking]
        for ticket in plan.prefill[:1]:
            scheduler.ready(ticket)
        over.wait(1e-4)
        assert [ticket.slot for ticket in plan.speaking] == slots == sorted(set(slots))
    scheduler.plan()
    assert (len(scheduler.open_tickets()), scheduler.waiting, scheduler.speaking) == (0, 0, 0)
    assert 0 < most_open[0] <= 6
    last = [scheduler.enter() for _ in range(6)]
    for ticket in last:
        scheduler.enqueue(ticket)
    scheduler.plan()
    assert {ticket.slot for ticket in last[:3]} == {0, 1, 2}


# --- single rules ---------------------------------------------------------------------------------------------------


def speaking(scheduler: Scheduler, count: int) -> list[Ticket]:
    """Return new tickets in stage speaking."""
    tickets = [scheduler.enter() for _ in range(count)]
    for ticket in tickets:
        scheduler.enqueue(ticket)
    scheduler.plan()
    for ticket in tickets:
        scheduler.ready(ticket)
    return tickets


def test_stages_of_one_turn() -> None:
    scheduler = Scheduler(2, 0)
    ticket = scheduler.enter()
    assert (ticket.stage, ticket.slot) == ("idle", None)
    assert scheduler.plan() == Plan((), ())
    scheduler.enqueue(ticket)
    assert (ticket.stage, scheduler.waiting, scheduler.queue_position(ticket)) == ("waiting", 1, 0)
    assert scheduler.plan() == Plan((ticket,), ())
    assert scheduler.plan() == Plan((ticket,), ())  # the next prefill chunk
    assert (ticket.stage, ticket.slot, scheduler.speaking) == ("prefilling", 0, 0)
    scheduler.ready(ticket)
    assert scheduler.plan() == Plan((), (ticket,))
    assert scheduler.speaking == 1
    scheduler.release(ticket)
    assert (ticket.stage, ticket.slot, len(scheduler.open_tickets())) == ("idle", None, 1)
    scheduler.leave(ticket)
    assert (ticket.gone, len(scheduler.open_tickets())) == (True, 0)


def test_full_scheduler_rejects_until_a_ticket_leaves() -> None:
    scheduler = Scheduler(1, 2)
    inside = [scheduler.enter() for _ in range(3)]
    with pytest.raises(EngineBusy, match="the limit is 3"):
        scheduler.enter()
    scheduler.leave(inside[1])
    scheduler.leave(inside[1])
    fourth = scheduler.enter()
    assert fourth.number == 3
    with pytest.raises(EngineBusy):
        scheduler.enter()


def test_prompts_are_prefilled_in_order_while_others_speak() -> None:
    scheduler = Scheduler(4, 0)
    first, second = speaking(scheduler, 2)
    third, fourth = scheduler.enter(), scheduler.enter()
    scheduler.enqueue(fourth)
    scheduler.enqueue(third)
    assert scheduler.plan() == Plan((third, fourth), (first, second))
    assert scheduler.plan() == Plan((third, fourth), (first, second))
    scheduler.ready(third)
    assert scheduler.plan() == Plan((fourth,), (first, second, third))
    scheduler.ready(fourth)
    assert scheduler.plan() == Plan((), (first, second, third, fourth))


def test_earlier_ticket_goes_before_newcomers() -> None:
    scheduler = Scheduler(1, 3)
    (first,) = speaking(scheduler, 1)
    others = [scheduler.enter() for _ in range(3)]
    for ticket in reversed(others):
        scheduler.enqueue(ticket)
    assert [scheduler.queue_position(ticket) for ticket in others] == [0, 1, 2]
    scheduler.release(first)
    scheduler.enqueue(first)
    assert [scheduler.queue_position(ticket) for ticket in (first, *others)] == [0, 1, 2, 3]
    assert scheduler.plan().prefill == (first,)
    scheduler.leave(first)
    scheduler.release(others[0])  # leaves the queue
    assert scheduler.plan().prefill == (others[1],)
    assert [scheduler.queue_position(ticket) for ticket in others] == [0, 0, 0]


def turn(scheduler: Scheduler, *tickets: Ticket) -> list[int | None]:
    """Enqueue tickets together. Returns the slots that they get."""
    for ticket in tickets:
        scheduler.enqueue(ticket)
    scheduler.plan()
    return [ticket.slot for ticket in tickets]


def test_owners_take_turns_regardless_of_their_requests() -> None:
    scheduler = Scheduler(1, 30)
    greedy = [scheduler.enter("greedy") for _ in range(20)]
    modest, late = scheduler.enter("modest"), scheduler.enter("late")
    for ticket in (*greedy, modest, late):
        scheduler.enqueue(ticket)
    assert [scheduler.queue_position(ticket) for ticket in (greedy[0], modest, late, greedy[1])] == [0, 1, 2, 3]
    order = []
    for _ in range(6):
        (served,) = scheduler.plan().prefill
        order.append(served.share.owner)
        scheduler.release(served)
        scheduler.enqueue(served)
    assert order == ["greedy", "modest", "late"] * 2


def test_owner_with_slots_waits_for_owners_without() -> None:
    scheduler = Scheduler(3, 9)
    tickets = [scheduler.enter("greedy") for _ in range(6)]
    assert turn(scheduler, *tickets) == [0, 1, 2, None, None, None], "there is no other owner yet"
    modest = [scheduler.enter("modest") for _ in range(2)]
    assert turn(scheduler, *modest) == [None, None]
    scheduler.release(tickets[0])
    scheduler.plan()
    assert modest[0].slot == 0
    scheduler.release(tickets[1])
    scheduler.plan()
    assert (tickets[3].slot, modest[1].slot) == (1, None), "with one slot each, the least recently served owner is next"


def test_prefill_alternates_between_owners() -> None:
    scheduler = Scheduler(4, 0)
    mine = [scheduler.enter("mine") for _ in range(3)]
    other = scheduler.enter("other")
    turn(scheduler, *mine, other)
    rest = mine[1], mine[2]
    assert [scheduler.plan().prefill for _ in range(3)] == [
        (*order, *rest) for order in [(other, mine[0]), (mine[0], other)] * 2
    ][:3]
    scheduler.ready(mine[0])
    assert [scheduler.plan().prefill for _ in range(2)] == [(mine[1], other, mine[2]), (other, mine[1], mine[2])]


def test_returning_owner_counts_as_newcomer() -> None:
    """Otherwise an owner that leaves and returns would get ahead of the others."""
    scheduler = Scheduler(1, 5)
    first, second, third = (scheduler.enter(name) for name in "abc")
    turn(scheduler, first, second, third)
    scheduler.release(first)
    scheduler.leave(second)
    again = scheduler.enter("b")
    scheduler.enqueue(again)
    assert [scheduler.queue_position(third), scheduler.queue_position(again)] == [0, 1]


def test_ticket_gets_its_previous_slot() -> None:
    scheduler = Scheduler(3, 0)
    tickets = speaking(scheduler, 3)
    for i in (2, 0, 1):
        scheduler.release(tickets[i])
    assert turn(scheduler, *reversed(tickets)) == [2, 1, 0]


def test_ticket_does_not_take_the_slot_of_a_ticket_served_with_it() -> None:
    scheduler = Scheduler(2, 2)
    early, *two = (scheduler.enter() for _ in range(3))
    assert turn(scheduler, *two) == [0, 1]
    for ticket in two:
        scheduler.release(ticket)
    assert turn(scheduler, early, two[0]) == [1, 0]


def test_newcomer_avoids_slots_of_open_tickets() -> None:
    scheduler = Scheduler(3, 2)
    first, second, third = speaking(scheduler, 3)
    for ticket in (first, second, third):
        scheduler.release(ticket)
    scheduler.leave(third)
    assert turn(scheduler, scheduler.enter()) == [2]  # the highest, but of no open ticket
    assert turn(scheduler, scheduler.enter()) == [0]  # both belong to open tickets: the lowest
    assert turn(scheduler, second) == [1]


def test_plan_lists_displaced_tickets() -> None:
    scheduler = Scheduler(2, 2)
    first, second = speaking(scheduler, 2)
    scheduler.release(first)
    scheduler.enqueue(first)
    assert scheduler.plan().displaced == {}  # it gets its own slot
    scheduler.release(first)
    scheduler.enqueue(scheduler.enter())
    assert scheduler.plan().displaced == {0: first}
    scheduler.release(second)
    scheduler.leave(second)
    scheduler.enqueue(first)
    assert scheduler.plan().displaced == {}  # its last ticket has left


def test_overwritten_slot_belongs_to_its_last_ticket() -> None:
    scheduler = Scheduler(2, 2)
    first, second = speaking(scheduler, 2)
    scheduler.release(first)
    (third,) = newcomers = [scheduler.enter()]
    assert turn(scheduler, *newcomers) == [0]
    scheduler.release(second)
    scheduler.release(third)
    scheduler.leave(second)
    assert turn(scheduler, first) == [1]  # slot 0 now belongs to the third
    assert turn(scheduler, third) == [0]


def test_leaving_ticket_keeps_its_slot_until_the_next_plan() -> None:
    """A frame may be running, and its row must still be known."""
    scheduler = Scheduler(1, 1)
    (first,) = speaking(scheduler, 1)
    plan = scheduler.plan()
    second = scheduler.enter()
    scheduler.enqueue(second)
    scheduler.leave(first)
    assert [ticket.slot for ticket in plan.speaking] == [0]
    assert (scheduler.speaking, len(scheduler.open_tickets()), second.slot) == (0, 1, None)
    assert scheduler.plan() == Plan((second,), ())
    assert (first.slot, second.slot) == (None, 0)


STAGES: dict[str, tuple[Callable[[Scheduler, Ticket], object], ...]] = {
    "idle": (),
    "waiting": (Scheduler.enqueue,),
    "prefilling": (Scheduler.enqueue, lambda scheduler, _: scheduler.plan()),
    "speaking": (Scheduler.enqueue, lambda scheduler, _: scheduler.plan(), Scheduler.ready),
    "gone": (Scheduler.leave,),
}
ALLOWED = {
    (Scheduler.enqueue, "idle"),
    (Scheduler.ready, "prefilling"),
    (Scheduler.release, "waiting"),
    (Scheduler.release, "prefilling"),
    (Scheduler.release, "speaking"),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("action", [Scheduler.enqueue, Scheduler.ready, Scheduler.release])
def test_wrong_stage_is_rejected_but_gone_tickets_are_ignored(
    stage: str, action: Callable[[Scheduler, Ticket], object]
) -> None:
    scheduler = Scheduler(1, 0)
    ticket = scheduler.enter()
    for step in STAGES[stage]:
        step(scheduler, ticket)
    if stage == "gone" or (action, stage) in ALLOWED:
        action(scheduler, ticket)
        assert ticket.gone == (stage == "gone")
    else:
        assert ticket.stage == stage
        with pytest.raises(ValueError, match=f"is {stage} and cannot"):
            action(scheduler, ticket)
        assert ticket.stage == stage
    assert len(scheduler.open_tickets()) == (stage != "gone")
