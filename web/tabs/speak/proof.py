"""Handlers that check takes with the recogniser. They are generators, so that the page can show progress."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.text import speaking_time
from web.tabs.speak.take_list import ShownTakes, list_value
from web.ui.events import with_nonce
from web.ui.messages import error_message
from web.ui.payloads import Id, Ticket, UnexpectedPayload, parse_payload

if TYPE_CHECKING:
    from studio.engines.measured_speech import MeasuredSpeech
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.limits.budgets import Reservation

Value = dict[str, Any]


class TakeProof(ShownTakes):
    """A take to check and, if `repair`, to speak again where words are wrong. ticket: for `stop`."""

    id: Id
    repair: bool
    ticket: Ticket


class TakeProofHandlers:
    """Event handlers that check takes. Their output is the list of takes."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    def check(self, token: Any, request: gr.Request, event: gr.EventData) -> Iterator[Value]:
        """Yield values with `proof`; the last one also has the list of takes. Never raises.

        proof: ticket, the event's; attempt, number of the new try, 0 while the take itself is checked. The last one has
        `over` and the outcome: offer, whether a recogniser must be installed first; added, the id of a better take;
        message, a sentence; problem, whether it is an error.
        """
        texts = self._context.texts(request)
        try:
            asked = parse_payload(TakeProof, event)
        except UnexpectedPayload:
            return
        owner, added = None, None
        end: Value = {"ticket": asked.ticket, "over": True}
        try:
            owner = self._context.owner(token, request)
            if not self._context.recognition.ready:
                yield _value({**end, "offer": True})
                return
            session = getattr(request, "session_hash", None) or ""
            text = self._context.takes.get(asked.id, owner=owner.key).text
            expected = speaking_time(text) if asked.repair else 0.0  # of a first try; what is spoken is charged
            budget = self._context.budgets.reserve_take(owner, expected, texts)
            with budget as reservation, self._context.running.register(asked.ticket, session):
                added = yield from self._steps(asked, owner, reservation)
            if asked.repair:
                end |= {"added": added, "message": texts("takes.repaired" if added else "takes.not_repaired")}
        except Exception as error:
            end |= {"message": error_message(error, texts), "problem": True}
        listed = list_value(self._context, owner, [*asked.ids, *([added] if added else [])]) if owner else {}
        yield {**listed, **_value(end)}

    def _steps(self, asked: TakeProof, owner: Owner, reservation: Reservation) -> Generator[Value, None, str | None]:
        """Yield the progress; return the id of a better take, or None."""
        proofs = self._context.take_proofs
        yield _value({"ticket": asked.ticket, "attempt": 0})
        heard = proofs.hearing(asked.id, owner=owner.key)
        if heard is None or not asked.repair:
            proofs.hear(asked.id, owner=owner.key)
        if not asked.repair:
            return None
        speeches: list[MeasuredSpeech] = []

        def attach(speech: MeasuredSpeech) -> None:
            speeches.append(speech)
            self._context.running.attach(asked.ticket, speech)

        tries = proofs.repair(asked.id, owner=owner.key, attach=attach)
        try:
            while True:
                yield _value({"ticket": asked.ticket, "attempt": next(tries)})
        except StopIteration as over:
            return over.value.id if over.value else None
        finally:
            reservation.spoken = sum(speech.result.seconds for speech in speeches if speech.result)


def _value(proof: Value) -> Value:
    return with_nonce({"proof": proof})
