"""Insert, delete, move, split and merge the cards of a script. Positions never have gaps.

Functions work within the caller's session; every change locks the script first.
"""

from __future__ import annotations

from collections.abc import Set

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from storage.models import CardRow
from storage.repositories import takes
from storage.repositories.scripts import cards, scripts
from storage.repositories.scripts.cards import CardRecord
from storage.scripts.card_content import CardContent
from storage.validation import new_id


def insert(
    *, session: Session, script_id: str, owner: str, position: int, card: CardContent, voice_id: str | None
) -> CardRecord:
    """Insert a new card; later cards shift by one.

    Raises ScriptNotFound, VoiceNotFound, InvalidInput.
    """
    scripts.lock_row(session=session, script_id=script_id, owner=owner)
    scripts.check_voice(session, voice_id, owner)
    count = _count(session, script_id)
    scripts.check_count(count + 1)
    place = _place(position, count)
    _shift(session, script_id, by=1, start=place)
    row = CardRow(**scripts.card_values(card, script_id=script_id, position=place, voice_id=voice_id))
    session.add(row)
    session.flush()
    return cards.record(session=session, card_id=row.id, owner=owner)


def remove(*, session: Session, card_id: str, owner: str) -> None:
    """Delete a card with its takes, except those in the history. Raises ScriptNotFound, InvalidInput."""
    _remove(session, cards.lock_editable_row(session, card_id, owner))


def remove_chapters(*, session: Session, script_id: str, owner: str, card_ids: Set[str]) -> None:
    """Delete the chapters that begin with these cards, and their takes, except those in the history.

    The first chapter begins with the first card. Ids of other cards are ignored. Raises ScriptNotFound, InvalidInput.
    """
    scripts.lock_row(session=session, script_id=script_id, owner=owner)
    query = select(CardRow.id, CardRow.position, CardRow.chapter, CardRow.locked).where(CardRow.script_id == script_id)
    kept: list[tuple[str, int]] = []
    removed: list[str] = []
    wanted = True
    for card_id, position, chapter, locked in session.execute(query.order_by(CardRow.position)):
        if position == 0 or chapter is not None:
            wanted = card_id not in card_ids
        if wanted:
            kept.append((card_id, position))
        elif locked:
            raise InvalidInput("cards.chapter_locked", number=position + 1)
        else:
            removed.append(card_id)
    takes.delete_of_cards(session=session, card_ids=removed)
    session.execute(delete(CardRow).where(CardRow.id.in_(removed)).execution_options(synchronize_session=False))
    moved = [{"id": id, "position": place} for place, (id, position) in enumerate(kept) if position != place]
    if moved:
        session.execute(update(CardRow), moved)


def move(*, session: Session, card_id: str, owner: str, position: int) -> CardRecord:
    """Move a card to another position. Raises ScriptNotFound, InvalidInput."""
    row = cards.lock_row(session=session, card_id=card_id, owner=owner)
    old, new = row.position, _place(position, _count(session, row.script_id) - 1)
    row.position = -1
    session.flush()
    _shift(session, row.script_id, by=-1, start=old + 1)
    _shift(session, row.script_id, by=1, start=new)
    row.position = new
    return cards.changed(session, row, owner)


def split(*, session: Session, card_id: str, owner: str, at: int, pause: float) -> tuple[CardRecord, CardRecord]:
    """Split a card before the character `at`. pause: seconds between the parts. Raises ScriptNotFound, InvalidInput."""
    row = cards.lock_editable_row(session, card_id, owner)
    if not (0 < at < len(row.text) and row.text[:at].strip() and row.text[at:].strip()):
        raise InvalidInput("cards.empty_half")
    scripts.check_count(_count(session, row.script_id) + 1)
    second = CardRow(**_values(row), id=new_id(), position=row.position + 1, text=row.text[at:].strip())
    _shift(session, row.script_id, by=1, start=second.position)
    session.add(second)
    cards.write(session, row, row.text[:at].strip())
    row.pause, row.ends_paragraph = scripts.checked_pause(pause), False
    return cards.changed(session, row, owner), cards.record(session=session, card_id=second.id, owner=owner)


def merge(*, session: Session, card_id: str, owner: str) -> CardRecord:
    """Merge the next card into this one, which keeps its voice, and is queued if either was.

    Raises ScriptNotFound, InvalidInput."""
    row = cards.lock_editable_row(session, card_id, owner)
    following = session.scalar(
        select(CardRow).where(CardRow.script_id == row.script_id, CardRow.position == row.position + 1)
    )
    if following is None:
        raise InvalidInput("cards.no_next")
    if following.locked:
        raise InvalidInput("cards.next_locked")
    if following.speaker != row.speaker:
        raise InvalidInput("cards.two_speakers")
    if following.chapter is not None:
        raise InvalidInput("cards.next_chapter")
    cards.write(session, row, scripts.checked_card_text(f"{row.text} {following.text}"))
    row.pause, row.ends_paragraph = following.pause, following.ends_paragraph
    row.status = "queued" if "queued" in (row.status, following.status) else row.status
    _remove(session, following)
    return cards.changed(session, row, owner)


def _remove(session: Session, row: CardRow) -> None:
    takes.delete_of_cards(session=session, card_ids=[row.id])
    position, script_id = row.position, row.script_id
    session.delete(row)
    session.flush()
    _shift(session, script_id, by=-1, start=position + 1)


def _count(session: Session, script_id: str) -> int:
    return session.scalar(select(func.count()).where(CardRow.script_id == script_id)) or 0


def _place(position: int, count: int) -> int:
    if not 0 <= position <= count:
        raise InvalidInput("cards.no_position", position=position + 1, most=count + 1)
    return position


def _shift(session: Session, script_id: str, *, by: int, start: int) -> None:
    session.execute(
        update(CardRow)
        .where(CardRow.script_id == script_id, CardRow.position >= start)
        .values(position=CardRow.position + by)
    )


def _values(row: CardRow) -> dict[str, object]:
    """The columns that the second part of a split card inherits."""
    names = ("script_id", "speaker", "voice_id", "pause", "ends_paragraph", "speed", "locked")
    status = "queued" if row.status == "queued" else "idle"
    return {"status": status, "failure": None, **{name: getattr(row, name) for name in names}}
