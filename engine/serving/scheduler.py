"""Slot scheduling: a fixed number of slots, assigned for one turn at a time, round-robin between owners.

A request holds a ticket from `enter` to `leave` and waits for a slot for each segment of its text:

    idle ─ enqueue → waiting ─ plan → prefilling ─ ready → speaking ─ release → idle        leave, from any stage

A free slot goes to the owner with the fewest slots, among several to the one served least recently; requests of one
owner are served first come, first served. An owner without a slot waits for at most one turn of each other owner.

Before each frame the engine loop calls `plan`: prompts are prefilled within a budget of positions, and every speaking
ticket gets a frame, so that long prompts never interrupt the others. This module only plans; it does not use torch.
"""

import threading
import weakref
from bisect import insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter, itemgetter
from typing import Literal

from engine.errors import EngineBusy

# Maximum number of slots of an engine. More than a GPU speaks in real time, and each takes memory.
MAX_SLOTS = 256

Stage = Literal["idle", "waiting", "prefilling", "speaking"]


@dataclass(eq=False, slots=True)
class OwnerShare:
    """One owner's share of the turns, while the owner has open requests.

    served_at: when it last got a slot, or entered. prefilled_at: when a chunk of its prompts was last prefilled. Both
    count the scheduler's events.
    """

    owner: str
    served_at: int
    prefilled_at: int


@dataclass(eq=False, slots=True, weakref_slot=True)
class Ticket:
    """The scheduler's record of one request. Only the scheduler changes it.

    It is separate from the request because the scheduler keeps it after the request has left, as the last holder of a
    slot; it holds no text, no audio and no tensors.

    number: in order of arrival. share: of its owner, the same object for all open requests of that owner. slot: None
    without one; it changes only in `plan` and `release`, so it is valid for a whole frame even if the request leaves.
    gone: whether the request has left; `stage` is then its last one.
    """

    number: int
    share: OwnerShare
    slot: int | None = None
    stage: Stage = "idle"
    gone: bool = False


@dataclass(frozen=True)
class Plan:
    """The next step.

    prefill: tickets to prefill: a chunk for the first, and for others as far as the budget allows.
    speaking: tickets that get a frame, by slot.
    displaced: the open requests whose last slots are now assigned to others, by slot.
    """

    prefill: tuple[Ticket, ...]
    speaking: tuple[Ticket, ...]
    displaced: Mapping[int, Ticket] = field(default_factory=dict)


class Scheduler:
    """Assigns `slots` slots to at most `slots + queue` open requests.

    `enter`, `leave`, `queue_position`, `open_tickets` and the counts may be called from any thread, the other methods
    from the engine's thread. `leave` may also be called by a finalizer, which the garbage collector may run within any
    of these methods: it takes no lock and only sets a flag; the other methods clean up. Because a request may leave at
    any moment, `enqueue`, `ready` and `release` ignore a ticket that is gone; for a ticket in any other wrong stage
    they raise ValueError.
    """

    def __init__(self, slots: int, queue: int) -> None:
        self.slots = slots
        self._limit = slots + queue
        self._numbers = count()
        self._clock = count()
        # Weak: a request that fails before it has its ticket cannot leave.
        self._entered: list[weakref.ref[Ticket]] = []
        self._waiting: list[Ticket] = []  # by number
        self._free = set(range(slots))
        # The holder of each slot, or its last holder, whose keys and values are still in it.
        self._holders: list[Ticket | None] = [None] * slots
        self._lock = threading.Lock()

    def open_tickets(self) -> list[Ticket]:
        """The tickets of requests that have entered and not left."""
        with self._lock:
            return self._open_tickets()

    @property
    def waiting(self) -> int:
        """Tickets waiting for a slot."""
        with self._lock:
            return len(_present(self._waiting))

    @property
    def speaking(self) -> int:
        """Tickets that get a frame in every step."""
        with self._lock:
            return len(self._in_stage("speaking"))

    def enter(self, owner: str = "") -> Ticket:
        """Open a request of an owner. Raises EngineBusy when the queue is full."""
        with self._lock:
            entered = self._open_tickets()
            if len(entered) >= self._limit:
                raise EngineBusy("engine.busy", limit=self._limit)
            ticket = Ticket(next(self._numbers), self._owner_share(owner, entered))
            self._entered = [weakref.ref(each) for each in (*entered, ticket)]
            return ticket

    def enqueue(self, ticket: Ticket) -> None:
        """Queue for a slot for one turn."""
        with self._lock:
            if _check_stage(ticket, "ask for a slot", "idle"):
                ticket.stage = "waiting"
                # By number: a request that has begun stays ahead of those that arrived later.
                insort(self._waiting, ticket, key=attrgetter("number"))

    def plan(self) -> Plan:
        """Assign the free slots to waiting tickets, and return the next step.

        A ticket gets the slot of its last turn if that is free and was not reassigned; otherwise the lowest free slot,
        preferably one that was not last held by an open request.
        """
        with self._lock:
            self._reclaim_slots()
            displaced = self._assign_slots()
            return Plan(self._next_prefills(), tuple(self._in_stage("speaking")), displaced)

    def ready(self, ticket: Ticket) -> None:
        """Mark a ticket's prompt as complete: it speaks from the next plan on."""
        with self._lock:
            if _check_stage(ticket, "be ready", "prefilling"):
                ticket.stage = "speaking"

    def release(self, ticket: Ticket) -> None:
        """End a ticket's turn: free its slot or its place in the queue."""
        with self._lock:
            if _check_stage(ticket, "release its slot", "waiting", "prefilling", "speaking"):
                if ticket.stage == "waiting":
                    self._waiting.remove(ticket)
                ticket.stage = "idle"
                if ticket.slot is not None:
                    self._free.add(ticket.slot)
                    ticket.slot = None

    def leave(self, ticket: Ticket) -> None:
        """End a request. The next plan can assign its slot again. Leaving twice has no effect."""
        ticket.gone = True

    def queue_position(self, ticket: Ticket) -> int:
        """Return the number of waiting tickets ahead of this one; 0 when it is next or not waiting."""
        with self._lock:
            waiting = self._queue_order()
            return waiting.index(ticket) if ticket in waiting else 0

    def _open_tickets(self) -> list[Ticket]:
        return _present([ticket for entered in self._entered if (ticket := entered()) is not None])

    def _owner_share(self, owner: str, entered: list[Ticket]) -> OwnerShare:
        """Return the share of the owner's open requests. A new owner ranks after the present ones."""
        for ticket in entered:
            if ticket.share.owner == owner:
                return ticket.share
        now = next(self._clock)
        return OwnerShare(owner, served_at=now, prefilled_at=now)

    def _queue_order(self) -> list[Ticket]:
        """Return the waiting tickets in the order in which they get slots if no assigned slot is released meanwhile.

        Every owner gets one slot per round. An owner's first waiting ticket is in the round after the slots that the
        owner holds, its second in the next. Within a round, owners with fewer waiting tickets in earlier rounds come
        first.
        """
        held = Counter(
            holder.share for holder in self._holders if holder and holder.slot is not None and not holder.gone
        )
        nth: Counter[OwnerShare] = Counter()
        order: list[tuple[tuple[int, int, int], Ticket]] = []
        for ticket in _present(self._waiting):  # by number
            share = ticket.share
            order.append(((held[share] + nth[share], nth[share], share.served_at), ticket))
            nth[share] += 1
        return [ticket for _, ticket in sorted(order, key=itemgetter(0))]

    def _next_prefills(self) -> tuple[Ticket, ...]:
        """Return the tickets to prefill, alternating between owners; one owner's tickets come by number."""
        nth: Counter[OwnerShare] = Counter()
        order: list[tuple[tuple[int, int, int], Ticket]] = []
        for ticket in sorted(self._in_stage("prefilling"), key=attrgetter("number")):
            order.append(((nth[ticket.share], ticket.share.prefilled_at, ticket.number), ticket))
            nth[ticket.share] += 1
        tickets = tuple(ticket for _, ticket in sorted(order, key=itemgetter(0)))
        if tickets:
            tickets[0].share.prefilled_at = next(self._clock)
        return tickets

    def _in_stage(self, stage: Stage) -> list[Ticket]:
        """Return the tickets in a stage that has a slot, by slot."""
        return [ticket for ticket in self._holders if ticket is not None and ticket.stage == stage and not ticket.gone]

    def _reclaim_slots(self) -> None:
        self._waiting = _present(self._waiting)
        for slot, holder in enumerate(self._holders):
            if holder is not None and holder.gone:
                self._holders[slot] = None
                if holder.slot is not None:
                    self._free.add(slot)
                    holder.slot = None

    def _assign_slots(self) -> dict[int, Ticket]:
        """Assign free slots. Returns the other open requests that held them last, by slot."""
        if not (self._free and self._waiting):
            return {}
        displaced = {}
        served = self._queue_order()[: len(self._free)]
        self._waiting = [ticket for ticket in self._waiting if ticket not in served]
        for ticket in served:
            ticket.share.served_at = next(self._clock)
        known = {self._holders[slot] for slot in self._free}
        for ticket in sorted(served, key=lambda ticket: ticket not in known):  # first those with a slot to return to
            slot = self._choose_slot(ticket)
            self._free.remove(slot)
            last = self._holders[slot]
            if last is not None and last is not ticket:
                displaced[slot] = last
            self._holders[slot] = ticket
            ticket.slot, ticket.stage = slot, "prefilling"
        return displaced

    def _choose_slot(self, ticket: Ticket) -> int:
        """Return the ticket's last slot, else one without a holder, else any; lowest first, as fewer rows cost less."""
        holders = self._holders
        return min(self._free, key=lambda slot: (holders[slot] is not ticket, holders[slot] is not None, slot))


def _check_stage(ticket: Ticket, what: str, *stages: Stage) -> bool:
    """Return whether the ticket has not left. Raises ValueError when it is in none of `stages`."""
    if ticket.gone:
        return False
    if ticket.stage not in stages:
        raise ValueError(f"Ticket {ticket.number} is {ticket.stage} and cannot {what} now.")
    return True


def _present(tickets: list[Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets if not ticket.gone]
