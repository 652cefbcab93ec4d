"""Who speaks when: a fixed number of slots, lent for one turn at a time, first come first served.

A request holds a ticket from `enter` to `leave` and asks for a slot for each segment of its text:

    idle ─ ask → waiting ─ plan → prefilling ─ ready → speaking ─ release → idle        leave, at any moment

Between two frames the engine asks for a `plan`: at most one piece of one prompt, then a frame for everyone who speaks,
so that a long prompt never makes speakers stutter. Nothing is computed here.
"""

import threading
from bisect import insort
from dataclasses import dataclass
from itertools import count
from typing import Literal

from engine.errors import EngineBusy

Stage = Literal["idle", "waiting", "prefilling", "speaking"]


@dataclass(eq=False, slots=True)
class Ticket:
    """One request's place. Only the scheduler changes it.

    number: in order of arrival. slot: the slot that it holds, None while it has none. It changes in `plan` and
    `release` only, so it stays true for the whole of a frame even when the request leaves in the middle of it.
    gone: whether the request has left; then `stage` is where it was.
    """

    number: int
    slot: int | None = None
    stage: Stage = "idle"
    gone: bool = False


@dataclass(frozen=True)
class Plan:
    """What to do next: the ticket that gets one piece of its prompt read, and those that get a frame, by slot."""

    prefill: Ticket | None
    speaking: tuple[Ticket, ...]


class Scheduler:
    """Lends `slots` slots to at most `slots + queue` open requests.

    `enter`, `leave`, `place` and the counts may be called from any thread, everything else from the engine's own.
    `leave` may be called by a finalizer too, which the garbage collector runs wherever it likes, also within these
    methods: it takes no lock and moves nothing. The others clear up after it.
    Since a request may leave at any moment, `ask`, `ready` and `release` of a ticket that is gone do nothing; out of
    turn otherwise, they raise ValueError.
    """

    def __init__(self, slots: int, queue: int) -> None:
        if slots < 1 or queue < 0:
            raise ValueError(f"There must be a slot or more and no negative queue, not {slots} and {queue}.")
        self.slots = slots
        self._limit = slots + queue
        self._numbers = count()
        self._inside: list[Ticket] = []
        self._waiting: list[Ticket] = []  # by number
        self._free = set(range(slots))
        # Who has each slot, or had it last: then its keys and values are still there.
        self._holders: list[Ticket | None] = [None] * slots
        self._lock = threading.Lock()

    @property
    def open(self) -> int:
        """Requests inside: entered and not left."""
        with self._lock:
            return len(_present(self._inside))

    @property
    def waiting(self) -> int:
        """Tickets that wait for a slot."""
        with self._lock:
            return len(_present(self._waiting))

    @property
    def speaking(self) -> int:
        """Tickets that get every frame."""
        with self._lock:
            return len(self._in_stage("speaking"))

    def enter(self) -> Ticket:
        """A ticket for a new request. Raises EngineBusy when the house is full."""
        with self._lock:
            self._inside = _present(self._inside)
            if len(self._inside) >= self._limit:
                raise EngineBusy(f"All {self._limit} places are taken by other requests; try again in a moment.")
            ticket = Ticket(next(self._numbers))
            self._inside.append(ticket)
            return ticket

    def ask(self, ticket: Ticket) -> None:
        """Want a slot for one turn."""
        with self._lock:
            if _may(ticket, "ask for a slot", "idle"):
                ticket.stage = "waiting"
                # A request under way came before the newcomers, and so goes before them.
                insort(self._waiting, ticket, key=_number)

    def plan(self) -> Plan:
        """Lend the free slots to those who wait, in order of their numbers, and say what to do next.

        A ticket gets the slot of its last turn again if that is free and nobody else had it since; otherwise the
        lowest, where possible one that holds nothing of an open request.
        """
        with self._lock:
            self._take_back()
            self._lend()
            prefilling = min(self._in_stage("prefilling"), key=_number, default=None)
            return Plan(prefilling, tuple(self._in_stage("speaking")))

    def ready(self, ticket: Ticket) -> None:
        """Its prompt is in the cache: from the next plan on it speaks."""
        with self._lock:
            if _may(ticket, "be ready", "prefilling"):
                ticket.stage = "speaking"

    def release(self, ticket: Ticket) -> None:
        """The turn is over or no longer wanted: its slot, or its place in the queue, is free again."""
        with self._lock:
            if _may(ticket, "release its slot", "waiting", "prefilling", "speaking"):
                if ticket.stage == "waiting":
                    self._waiting.remove(ticket)
                ticket.stage = "idle"
                if ticket.slot is not None:
                    self._free.add(ticket.slot)
                    ticket.slot = None

    def leave(self, ticket: Ticket) -> None:
        """The request is over. Its slot can be lent again by the next plan. Leaving twice does nothing."""
        ticket.gone = True

    def place(self, ticket: Ticket) -> int:
        """How many waiting tickets are before it: 0 when it is next, or does not wait."""
        with self._lock:
            waiting = _present(self._waiting)
            return waiting.index(ticket) if ticket in waiting else 0

    def _in_stage(self, stage: Stage) -> list[Ticket]:
        """Tickets with a slot, by slot."""
        return [ticket for ticket in self._holders if ticket is not None and ticket.stage == stage and not ticket.gone]

    def _take_back(self) -> None:
        self._waiting = _present(self._waiting)
        for slot, holder in enumerate(self._holders):
            if holder is not None and holder.gone:
                self._holders[slot] = None
                if holder.slot is not None:
                    self._free.add(slot)
                    holder.slot = None

    def _lend(self) -> None:
        served = self._waiting[: len(self._free)]
        del self._waiting[: len(served)]
        known = {self._holders[slot] for slot in self._free}
        for ticket in sorted(served, key=lambda ticket: ticket not in known):  # their own slots first, then the rest
            slot = self._choose(ticket)
            self._free.remove(slot)
            self._holders[slot] = ticket
            ticket.slot, ticket.stage = slot, "prefilling"

    def _choose(self, ticket: Ticket) -> int:
        """The ticket's own slot, else nobody's, else any; of several the lowest: a frame costs as much as its rows."""
        holders = self._holders
        return min(self._free, key=lambda slot: (holders[slot] is not ticket, holders[slot] is not None, slot))


def _number(ticket: Ticket) -> int:
    return ticket.number


def _may(ticket: Ticket, what: str, *stages: Stage) -> bool:
    """True in one of `stages`, False when the ticket is gone; raises ValueError otherwise."""
    if ticket.gone:
        return False
    if ticket.stage not in stages:
        raise ValueError(f"Ticket {ticket.number} is {ticket.stage} and cannot {what} now.")
    return True


def _present(tickets: list[Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets if not ticket.gone]
