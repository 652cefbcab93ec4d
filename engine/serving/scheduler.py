"""Who speaks when: a fixed number of slots, lent for one turn at a time, round-robin between owners.

A request holds a ticket from `enter` to `leave` and asks for a slot for each segment of its text:

    idle ─ ask → waiting ─ plan → prefilling ─ ready → speaking ─ release → idle        leave, at any moment

A free slot goes to the owner with the fewest slots, of several to the one served longest ago; requests of one owner are
served first come first served. An owner without a slot waits for at most one turn of each other owner.

Between two frames the engine asks for a `plan`: at most one piece of one prompt, then a frame for everyone who speaks,
so that a long prompt never makes speakers stutter. Nothing is computed here.
"""

import threading
from bisect import insort
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Literal

from engine.errors import EngineBusy

Stage = Literal["idle", "waiting", "prefilling", "speaking"]


@dataclass(eq=False, slots=True)
class Share:
    """One owner's part in the turns, while the owner has open requests.

    served: when it last got a slot, or entered. read: when a piece of its prompts was last read. Both count events.
    """

    owner: str
    served: int
    read: int


@dataclass(eq=False, slots=True)
class Ticket:
    """One request's place. Only the scheduler changes it.

    number: in order of arrival. share: its owner's, the same for all open requests of that owner. slot: the slot that
    it holds, None while it has none. It changes in `plan` and `release` only, so it stays true for the whole of a frame
    even when the request leaves in the middle of it.
    gone: whether the request has left; then `stage` is where it was.
    """

    number: int
    share: Share
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
        self._clock = count()
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

    def enter(self, owner: str = "") -> Ticket:
        """A ticket for a new request of an owner. Raises EngineBusy when the house is full."""
        with self._lock:
            self._inside = _present(self._inside)
            if len(self._inside) >= self._limit:
                raise EngineBusy(f"All {self._limit} places are taken by other requests; try again in a moment.")
            ticket = Ticket(next(self._numbers), self._share(owner))
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
        """Lend the free slots to those who wait, and say what to do next.

        A ticket gets the slot of its last turn again if that is free and nobody else had it since; otherwise the
        lowest, where possible one that holds nothing of an open request.
        """
        with self._lock:
            self._take_back()
            self._lend()
            return Plan(self._next_prefill(), tuple(self._in_stage("speaking")))

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
            waiting = self._in_turn()
            return waiting.index(ticket) if ticket in waiting else 0

    def _share(self, owner: str) -> Share:
        """That of the owner's open requests; a new owner comes after those who are here."""
        for ticket in self._inside:
            if ticket.share.owner == owner:
                return ticket.share
        now = next(self._clock)
        return Share(owner, served=now, read=now)

    def _in_turn(self) -> list[Ticket]:
        """The waiting tickets in the order in which they get slots, if none of those that are lent comes back.

        In each round every owner gets one slot. The first waiting ticket of an owner is in the round after the slots
        that the owner holds, its second in the next. Within a round, those who waited the round before come first.
        """
        held = Counter(
            holder.share for holder in self._holders if holder and holder.slot is not None and not holder.gone
        )
        nth: Counter[Share] = Counter()
        turns: list[tuple[int, int, int, Ticket]] = []
        for ticket in _present(self._waiting):  # by number
            share = ticket.share
            turns.append((held[share] + nth[share], nth[share], share.served, ticket))
            nth[share] += 1
        return [ticket for *_, ticket in sorted(turns, key=_turn)]

    def _next_prefill(self) -> Ticket | None:
        """Owners get a piece read in turn; of one owner's tickets the one that came first is read to its end."""
        prefilling = self._in_stage("prefilling")
        if not prefilling:
            return None
        ticket = min(prefilling, key=lambda ticket: (ticket.share.read, ticket.number))
        ticket.share.read = next(self._clock)
        return ticket

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
        if not (self._free and self._waiting):
            return
        served = self._in_turn()[: len(self._free)]
        self._waiting = [ticket for ticket in self._waiting if ticket not in served]
        for ticket in served:
            ticket.share.served = next(self._clock)
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


def _turn(turn: tuple[int, int, int, Ticket]) -> tuple[int, int, int]:
    return turn[:3]


def _may(ticket: Ticket, what: str, *stages: Stage) -> bool:
    """True in one of `stages`, False when the ticket is gone; raises ValueError otherwise."""
    if ticket.gone:
        return False
    if ticket.stage not in stages:
        raise ValueError(f"Ticket {ticket.number} is {ticket.stage} and cannot {what} now.")
    return True


def _present(tickets: list[Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets if not ticket.gone]
