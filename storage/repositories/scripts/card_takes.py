"""The queue of cards to be spoken, and their takes. At most one take of a card is chosen.

Functions work within the caller's session; every change locks the script first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, exists, select, update
from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from engine.messages import UserMessage
from engine.voice import check_field
from storage.models import CardRow, CardTakeRow, TakeRow
from storage.object_store import StoredSound
from storage.repositories import takes
from storage.repositories.scripts import cards, hearings, runs, scripts
from storage.repositories.scripts.cards import CardRecord
from storage.repositories.scripts.hearings import Hearing
from storage.repositories.statements import changed_rows
from storage.repositories.takes import NewTake, TakeRecord
from storage.sqlite import erasure

_MAX_FAILURE = 4_000  # characters


def queue(*, session: Session, script_id: str, owner: str, card_ids: Sequence[str] | None) -> int:
    """Queue the given cards, or all without a chosen take, except locked ones; return their number.

    Raises ScriptNotFound.
    """
    scripts.lock_row(session=session, script_id=script_id, owner=owner)
    unspoken = ~exists().where(CardTakeRow.card_id == CardRow.id, CardTakeRow.chosen)
    wanted = unspoken if card_ids is None else CardRow.id.in_(card_ids)
    return _set_status(session, "queued", CardRow.script_id == script_id, wanted, ~CardRow.locked)


def unqueue(*, session: Session, script_id: str, owner: str) -> int:
    """Remove all cards of a script from the queue, and end its runs; return their number. Raises ScriptNotFound."""
    scripts.lock_row(session=session, script_id=script_id, owner=owner)
    runs.end(session=session, script_id=script_id, owner=owner)
    return _set_status(session, "idle", CardRow.script_id == script_id, CardRow.status == "queued")


def queued(*, session: Session, script_id: str, owner: str, limit: int) -> list[CardRecord]:
    """Return the first queued cards in order. Raises ScriptNotFound."""
    scripts.check_exists(session=session, script_id=script_id, owner=owner)
    query = cards.with_takes().where(CardRow.script_id == script_id, CardRow.status == "queued")
    return [cards.to_record(*found) for found in session.execute(query.order_by(CardRow.position).limit(limit))]


def fail(*, session: Session, card_id: str, owner: str, failure: UserMessage, run_id: str | None = None) -> CardRecord:
    """Store why a card could not be spoken, for its author. run_id: as for `attach`.

    Raises ScriptNotFound, InvalidInput, ClaimLost.
    """
    row = _locked(session, card_id, owner, run_id)
    written = failure.to_json()
    check_field(written, "reason", _MAX_FAILURE)
    row.status, row.failure = "failed", written
    return cards.changed(session, row, owner)


def attach(
    *,
    session: Session,
    card_id: str,
    owner: str,
    take: NewTake,
    now: datetime,
    listed: bool,
    sound: StoredSound | None = None,
    run_id: str | None = None,
    replaces: str | None = None,
    hearing: Hearing | None = None,
) -> CardRecord:
    """Store a take of a card and choose it. sound: as for `takes.create`. run_id: the run that claimed the card.

    It is not chosen if the card's text or voice has changed meanwhile, or if the card was locked with a take.
    replaces: the take that it is a repair of; it is not chosen either if another one was, or if the card was queued,
    and the card stays as it is. hearing: of the take.
    Raises ScriptNotFound, InvalidInput, and ClaimLost if the run's claim has ended; otherwise it ends with this.
    """
    row = _locked(session, card_id, owner, run_id)
    taken = takes.create(session=session, take=take, owner=owner, now=now, listed=listed, sound=sound)
    fits = take.text == row.text and row.voice_id in (None, take.voice_id)
    current = _chosen_take(session, row.id)
    expected = replaces is None or (replaces == current and row.status != "queued")
    chosen = fits and expected and not (row.locked and current is not None)
    if chosen:
        _reset(session, row)
    session.add(CardTakeRow(take_id=taken, card_id=row.id, chosen=chosen))
    session.flush()
    if hearing is not None:
        hearings.keep(session=session, card_id=card_id, take_id=taken, owner=owner, hearing=hearing)
    return cards.changed(session, row, owner)


def choose(*, session: Session, card_id: str, owner: str, take_id: str) -> CardRecord:
    """Choose one of the card's takes. Raises ScriptNotFound, InvalidInput."""
    row = cards.lock_editable_row(session, card_id, owner)
    wanted = cards.lock_take(session, row, take_id)
    if session.scalar(select(TakeRow.text).where(TakeRow.id == take_id)) != row.text:
        raise InvalidInput("cards.other_words")
    _reset(session, row)
    wanted.chosen = True
    return cards.changed(session, row, owner)


def records(*, session: Session, card_id: str, owner: str) -> list[TakeRecord]:
    """Return all takes of a card, newest first. Raises ScriptNotFound."""
    cards.record(session=session, card_id=card_id, owner=owner)
    return takes.of_card(session=session, card_id=card_id)


def chosen(*, session: Session, script_id: str, owner: str) -> list[TakeRecord]:
    """Return the chosen takes of a script in the order of its cards. Raises ScriptNotFound."""
    scripts.check_exists(session=session, script_id=script_id, owner=owner)
    return takes.chosen(session=session, script_id=script_id)


def _locked(session: Session, card_id: str, owner: str, run_id: str | None) -> CardRow:
    row = cards.lock_row(session=session, card_id=card_id, owner=owner)
    if run_id is not None:
        runs.release(session=session, card_id=card_id, run_id=run_id)
    return row


def _reset(session: Session, row: CardRow) -> None:
    """Reset a card before a take is chosen: no chosen take, not queued, not failed."""
    cards.unchoose(session, row.id)
    if row.failure is not None:
        erasure.mark(session)
    row.status, row.failure = "idle", None


def _chosen_take(session: Session, card_id: str) -> str | None:
    return session.scalar(select(CardTakeRow.take_id).where(CardTakeRow.card_id == card_id, CardTakeRow.chosen))


def _set_status(session: Session, status: str, *which: ColumnElement[bool]) -> int:
    return changed_rows(session, update(CardRow).where(*which).values(status=status, failure=None))
