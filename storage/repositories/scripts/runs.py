"""Runs that speak scripts, in any process, and the cards that they have claimed: within the caller's session.

A run claims a card before it speaks it, so that no card is spoken twice. A run whose process has ended is not renewed:
it lapses, and its cards can be claimed again. Every change but a renewal locks the script first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, exists, insert, select, update
from sqlalchemy.orm import Session

from storage.errors import ClaimLost
from storage.models import CardClaimRow, CardRow, ScriptRow, ScriptRunRow
from storage.repositories.scripts import cards, scripts
from storage.repositories.scripts.cards import CardRecord
from storage.repositories.statements import changed_rows, put_row

LAPSES = timedelta(seconds=30)  # after a claim and after each renewal


def claim(*, session: Session, script_id: str, owner: str, run_id: str, now: datetime) -> CardRecord | None:
    """Claim the first queued card that no run speaks; None if there is none. Raises ScriptNotFound."""
    scripts.lock_row(session=session, script_id=script_id, owner=owner, touch=False)
    others = ScriptRunRow.id != run_id
    session.execute(delete(ScriptRunRow).where(ScriptRunRow.script_id == script_id, ScriptRunRow.until < now, others))
    free = ~exists().where(CardClaimRow.card_id == CardRow.id)
    query = cards.with_takes().where(CardRow.script_id == script_id, CardRow.status == "queued", free)
    found = session.execute(query.order_by(CardRow.position).limit(1)).first()
    if found is None:
        return None
    run = {"id": run_id, "script_id": script_id, "until": now + LAPSES}
    put_row(session=session, table=ScriptRunRow, key=["id"], values=run)
    card = cards.to_record(*found)
    session.execute(insert(CardClaimRow).values(card_id=card.id, run_id=run_id))
    return card


def others_speak(*, session: Session, script_id: str, owner: str, run_id: str) -> bool:
    """Whether another run speaks any queued card of the script. Raises ScriptNotFound."""
    scripts.check_exists(session=session, script_id=script_id, owner=owner)
    query = select(CardRow.id).join(CardClaimRow, CardClaimRow.card_id == CardRow.id)
    theirs = query.where(CardRow.script_id == script_id, CardRow.status == "queued", CardClaimRow.run_id != run_id)
    return session.scalar(theirs.limit(1)) is not None


def renew(*, session: Session, run_id: str, now: datetime) -> bool:
    """Renew a run; return False if it has been ended, or has lapsed and lost its cards."""
    return changed_rows(session, update(ScriptRunRow).where(ScriptRunRow.id == run_id).values(until=now + LAPSES)) > 0


def end(*, session: Session, script_id: str, owner: str, run_id: str | None = None) -> None:
    """End a run, or all runs of a script; their cards are no longer claimed. Raises ScriptNotFound."""
    scripts.lock_row(session=session, script_id=script_id, owner=owner, touch=False)
    ended = delete(ScriptRunRow).where(ScriptRunRow.script_id == script_id)
    session.execute(ended if run_id is None else ended.where(ScriptRunRow.id == run_id))


def release(*, session: Session, card_id: str, run_id: str) -> None:
    """End a run's claim of a card; the caller has locked the script. Raises ClaimLost if the run has none."""
    claim = delete(CardClaimRow).where(CardClaimRow.card_id == card_id, CardClaimRow.run_id == run_id)
    if not changed_rows(session, claim):
        raise ClaimLost("cards.claim_lost")


def speaking(*, session: Session, owner: str, now: datetime) -> dict[str, list[str]]:
    """Return the cards that are being spoken, by script; an empty list for a script that is between two cards."""
    query = (
        select(ScriptRunRow.script_id, CardClaimRow.card_id)
        .join(ScriptRow, ScriptRow.id == ScriptRunRow.script_id)
        .outerjoin(CardClaimRow, CardClaimRow.run_id == ScriptRunRow.id)
        .where(ScriptRow.owner == owner, ScriptRunRow.until >= now)
    )
    found: dict[str, list[str]] = {}
    for script_id, card_id in session.execute(query):
        found.setdefault(script_id, []).extend([card_id] if card_id else [])
    return found
