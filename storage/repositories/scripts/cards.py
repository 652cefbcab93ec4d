"""The cards of a script: queries and changes within the caller's session.

Every change locks the script first. A take stays chosen as long as it has the card's text and voice; otherwise it stays
with the card, and the newest take with the new text and voice is chosen instead, if there is one. `card_takes`
attaches takes to cards; `card_order` inserts, moves, splits and merges cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.orm import Session, aliased

from engine.errors import InvalidInput
from engine.messages import UserMessage
from engine.voice import check_field
from storage.errors import ScriptNotFound
from storage.models import CardRow, CardTakeRow, ScriptRow, TakeRow
from storage.repositories.scripts import scripts
from storage.scripts.limits import MAX_SPEAKER
from storage.sqlite import erasure
from storage.validation import is_id

CardState = Literal["new", "queued", "spoken", "failed"]


@dataclass(frozen=True)
class CardRecord:
    """A stored card. pause: seconds of silence after it. locked: its text, speaker, voice and take cannot change.

    ends_paragraph: its pause follows the script's. speed: playback speed of its take, 0.5 to 2. chapter: the title of
    the chapter that begins with it, or None.

    state: `failed` has a message in `failure`; `queued` may have a take, which the next one replaces. take_id,
    duration: the chosen take and its seconds, or None. stop_reason: of its speech; after `length` and `short` words may
    be missing. takes: their number.
    """

    id: str
    script_id: str
    position: int  # 0-based
    text: str
    speaker: str | None
    voice_id: str | None
    pause: float
    ends_paragraph: bool
    speed: float
    chapter: str | None
    locked: bool
    state: CardState
    failure: UserMessage | None
    take_id: str | None
    duration: float | None
    stop_reason: str | None
    takes: int

    @property
    def seconds(self) -> float | None:
        """Playback length of the chosen take."""
        return None if self.duration is None else self.duration / self.speed


def records(*, session: Session, script_id: str, owner: str) -> list[CardRecord]:
    """Return all cards of a script in order. Raises ScriptNotFound."""
    scripts.check_exists(session=session, script_id=script_id, owner=owner)
    query = with_takes().where(CardRow.script_id == script_id).order_by(CardRow.position)
    return [to_record(*found) for found in session.execute(query)]


def record(*, session: Session, card_id: str, owner: str) -> CardRecord:
    """Return one card. Raises ScriptNotFound, also for the card of another owner."""
    found = session.execute(with_takes().where(*_one(card_id, owner))).first()
    if found is None:
        raise ScriptNotFound("cards.gone")
    return to_record(*found)


def edit(*, session: Session, card_id: str, owner: str, text: str) -> CardRecord:
    """Change a card's text. Raises ScriptNotFound, InvalidInput."""
    row = lock_editable_row(session, card_id, owner)
    write(session, row, scripts.checked_card_text(text))
    return changed(session, row, owner)


def set_locked(*, session: Session, card_id: str, owner: str, locked: bool) -> CardRecord:
    """Lock or unlock a card; a locked card leaves the queue. Raises ScriptNotFound."""
    row = lock_row(session=session, card_id=card_id, owner=owner)
    row.locked = locked
    if locked and row.status == "queued":
        row.status = "idle"
    return changed(session, row, owner)


def set_pause(*, session: Session, card_id: str, owner: str, pause: float) -> CardRecord:
    """Set the seconds of silence after a card. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, card_id=card_id, owner=owner)
    row.pause, row.ends_paragraph = scripts.checked_pause(pause), False
    return changed(session, row, owner)


def set_speed(*, session: Session, card_id: str, owner: str, speed: float) -> CardRecord:
    """Set the playback speed of a card's takes. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, card_id=card_id, owner=owner)
    row.speed = scripts.checked_speed(speed)
    return changed(session, row, owner)


def set_chapter(*, session: Session, card_id: str, owner: str, title: str | None) -> CardRecord:
    """Begin a chapter with a card; None removes it. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, card_id=card_id, owner=owner)
    row.chapter = scripts.checked_chapter(title)
    return changed(session, row, owner)


def set_speaker(*, session: Session, card_id: str, owner: str, speaker: str | None) -> CardRecord:
    """Set a card's speaker (None: the narrator) but not its voice. Raises ScriptNotFound, InvalidInput."""
    row = lock_editable_row(session, card_id, owner)
    row.speaker = scripts.checked_speaker(speaker)
    return changed(session, row, owner)


def set_voice(*, session: Session, card_id: str, owner: str, voice_id: str | None) -> CardRecord:
    """Set a card's voice; None for no voice. Raises ScriptNotFound, VoiceNotFound, InvalidInput."""
    row = lock_editable_row(session, card_id, owner)
    scripts.check_voice(session, voice_id, owner)
    _give_voice(session, row, voice_id)
    return changed(session, row, owner)


def cast(*, session: Session, script_id: str, owner: str, speaker: str | None, voice_id: str | None) -> int:
    """Set the voice of all unlocked cards of a speaker (None: the narrator); return their number.

    Raises ScriptNotFound, VoiceNotFound, InvalidInput.
    """
    check_field(speaker or "", "speaker_name", MAX_SPEAKER)
    scripts.lock_row(session=session, script_id=script_id, owner=owner)
    scripts.check_voice(session, voice_id, owner)
    whose = CardRow.speaker.is_(None) if speaker is None else CardRow.speaker == speaker
    rows = session.scalars(select(CardRow).where(CardRow.script_id == script_id, whose, ~CardRow.locked)).all()
    for row in rows:
        _give_voice(session, row, voice_id)
    return len(rows)


def lock_row(*, session: Session, card_id: str, owner: str) -> CardRow:
    """Lock the card's script until the transaction ends; return the card's row. Raises ScriptNotFound."""
    scripts.lock_row(session=session, script_id=_script_of(session, card_id, owner), owner=owner)
    row = session.get(CardRow, card_id, populate_existing=True)
    if row is None:  # deleted while waiting for the lock
        raise ScriptNotFound("cards.gone")
    return row


def lock_script(*, session: Session, card_id: str, owner: str) -> None:
    """Lock the card's script for work that does not change it. Raises ScriptNotFound."""
    scripts.lock_row(session=session, script_id=_script_of(session, card_id, owner), owner=owner, touch=False)


def lock_editable_row(session: Session, card_id: str, owner: str) -> CardRow:
    """Like `lock_row`, but refuse a card that its author has locked. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, card_id=card_id, owner=owner)
    if row.locked:
        raise InvalidInput("cards.locked")
    return row


def lock_take(session: Session, row: CardRow, take_id: str) -> CardTakeRow:
    """Lock and return one of a card's takes, so that it is not deleted meanwhile. Raises InvalidInput."""
    query = select(CardTakeRow).where(CardTakeRow.take_id == take_id, CardTakeRow.card_id == row.id)
    take = session.scalar(query.with_for_update()) if is_id(take_id) else None
    if take is None:
        raise InvalidInput("cards.other_take")
    return take


def changed(session: Session, row: CardRow, owner: str) -> CardRecord:
    """Flush the changes of a card and return its record."""
    session.flush()
    return record(session=session, card_id=row.id, owner=owner)


def write(session: Session, row: CardRow, text: str) -> None:
    """Set a card's text; if it differs, choose the newest take that fits."""
    if text != row.text:
        row.text = text
        _choose_fitting(session, row)


def _give_voice(session: Session, row: CardRow, voice_id: str | None) -> None:
    if voice_id != row.voice_id:
        row.voice_id = voice_id
        _choose_fitting(session, row)


def _choose_fitting(session: Session, row: CardRow) -> None:
    """Choose the newest take with the card's text and voice, if the chosen one does not fit, and clear its failure.

    Without such a take none is chosen. A queued card stays queued.
    """
    fitting = select(CardTakeRow).join(TakeRow, TakeRow.id == CardTakeRow.take_id).where(TakeRow.text == row.text)
    if row.voice_id is not None:
        fitting = fitting.where(TakeRow.voice_id == row.voice_id)
    order = CardTakeRow.chosen.desc(), TakeRow.created.desc(), TakeRow.id.desc()
    best = fitting.where(CardTakeRow.card_id == row.id).order_by(*order).limit(1)
    take = session.scalar(best.with_for_update(of=CardTakeRow))  # locked, so that it is not deleted meanwhile
    if take is None or not take.chosen:
        unchoose(session, row.id)
    if take is not None:
        take.chosen = True
    if row.status == "failed":
        erasure.mark(session)
        row.status, row.failure = "idle", None


def unchoose(session: Session, card_id: str) -> None:
    """Clear the chosen take of a card."""
    outdated = update(CardTakeRow).where(CardTakeRow.card_id == card_id, CardTakeRow.chosen).values(chosen=False)
    session.execute(outdated, execution_options={"synchronize_session": "fetch"})


def _script_of(session: Session, card_id: str, owner: str) -> str:
    query = select(CardRow.script_id).join(ScriptRow, ScriptRow.id == CardRow.script_id)
    script_id = session.scalar(query.where(*_one(card_id, owner)))
    if script_id is None:
        raise ScriptNotFound("cards.gone")
    return script_id


def _one(card_id: str, owner: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    if not is_id(card_id):
        raise ScriptNotFound("cards.gone")
    return CardRow.id == card_id, ScriptRow.owner == owner


@cache  # building it takes longer than adding conditions
def with_takes() -> Select[CardRow, str | None, float | None, str | None, int]:
    """Query cards with their chosen take, its seconds and stop reason, and the number of their takes."""
    of_card = aliased(CardTakeRow)
    takes = select(func.count()).where(of_card.card_id == CardRow.id).scalar_subquery()
    return (
        select(CardRow, CardTakeRow.take_id, TakeRow.duration, TakeRow.stop_reason, takes)
        .join(ScriptRow, ScriptRow.id == CardRow.script_id)
        .outerjoin(CardTakeRow, (CardTakeRow.card_id == CardRow.id) & CardTakeRow.chosen)
        .outerjoin(TakeRow, TakeRow.id == CardTakeRow.take_id)
    )


def _state(row: CardRow, take_id: str | None) -> CardState:
    if row.status == "queued":
        return "queued"
    if row.status == "failed":
        return "failed"
    return "spoken" if take_id else "new"


def to_record(
    row: CardRow, take_id: str | None, duration: float | None, stop_reason: str | None, takes: int
) -> CardRecord:
    """Convert a row of `with_takes`."""
    return CardRecord(
        id=row.id,
        script_id=row.script_id,
        position=row.position,
        text=row.text,
        speaker=row.speaker,
        voice_id=row.voice_id,
        pause=row.pause,
        ends_paragraph=row.ends_paragraph,
        speed=row.speed,
        chapter=row.chapter,
        locked=row.locked,
        state=_state(row, take_id),
        failure=None if row.failure is None else UserMessage.from_json(row.failure),
        take_id=take_id,
        duration=duration,
        stop_reason=stop_reason,
        takes=takes,
    )
