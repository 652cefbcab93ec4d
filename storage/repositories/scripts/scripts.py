"""Scripts: queries and changes within the caller's session. Those of cards are in `cards`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from sqlalchemy import Select, delete, func, insert, select, update
from sqlalchemy.orm import Session

from engine.errors import InvalidInput, InvalidName
from engine.voice import check_field, is_built_in_voice
from storage.errors import ScriptNotFound
from storage.models import CardRow, CardTakeRow, CoverRow, ScriptRow, TakeRow
from storage.repositories.takes import delete_of_cards
from storage.repositories.voices import voices
from storage.scripts.card_content import CardContent
from storage.scripts.limits import (
    FASTEST_CARD,
    MAX_AUTHOR,
    MAX_CARD_TEXT,
    MAX_CARDS,
    MAX_CHAPTER,
    MAX_COVER,
    MAX_PAUSE,
    MAX_SCRIPT_NAME,
    MAX_SPEAKER,
    SLOWEST_CARD,
)
from storage.validation import check_number, is_id, new_id


@dataclass(frozen=True)
class ScriptRecord:
    """A script without its cards.

    done: the number of cards with a chosen take. spoken: their playback length in seconds, without pauses.
    paragraph_pause: seconds of silence after each paragraph. author: of the text, or "". cover: differs for each
    picture; None if there is none.
    """

    id: str
    name: str
    updated: datetime  # aware, UTC; of its name or any card
    cards: int
    done: int
    spoken: float
    paragraph_pause: float
    author: str
    cover: str | None


def create(
    *,
    session: Session,
    owner: str,
    name: str,
    cards: Iterable[CardContent],
    voice_id: str | None,
    author: str = "",
    cover: bytes = b"",
) -> ScriptRecord:
    """Store a new script, all cards in one voice. Raises InvalidName, InvalidInput, VoiceNotFound."""
    check_voice(session, voice_id, owner)
    now = datetime.now(UTC)
    named = {"name": clean_script_name(name), "author": checked_author(author)}
    row = ScriptRow(id=new_id(), owner=owner, created=now, updated=now, **named)
    session.add(row)
    session.flush()
    _put_cover(session, row.id, cover)
    values = [
        card_values(card, script_id=row.id, position=position, voice_id=voice_id) for position, card in enumerate(cards)
    ]
    check_count(len(values))
    if values:
        session.execute(insert(CardRow), values)
    return record(session=session, script_id=row.id, owner=owner)


def card_values(card: CardContent, *, script_id: str, position: int, voice_id: str | None) -> dict[str, object]:
    """Return the columns of a new card. Raises InvalidInput."""
    return {
        "id": new_id(),
        "script_id": script_id,
        "position": position,
        "text": checked_card_text(card.text),
        "speaker": checked_speaker(card.speaker),
        "voice_id": voice_id,
        "pause": checked_pause(card.pause),
        "ends_paragraph": card.ends_paragraph,
        "speed": checked_speed(card.speed),
        "chapter": checked_chapter(card.chapter),
        "locked": False,
        "status": "idle",
        "failure": None,
    }


def records(*, session: Session, owner: str) -> list[ScriptRecord]:
    """Return the owner's scripts, most recently changed first."""
    query = _with_totals().where(ScriptRow.owner == owner).order_by(ScriptRow.updated.desc(), ScriptRow.id)
    return [_record(*found) for found in session.execute(query)]


def record(*, session: Session, script_id: str, owner: str) -> ScriptRecord:
    """Return one script. Raises ScriptNotFound, also for the script of another owner."""
    query = _with_totals().where(ScriptRow.id == _checked(script_id), ScriptRow.owner == owner)
    found = session.execute(query).first()
    if found is None:
        raise ScriptNotFound("cards.script_gone")
    return _record(*found)


def check_exists(*, session: Session, script_id: str, owner: str) -> None:
    """Raise ScriptNotFound unless the owner has this script."""
    query = select(ScriptRow.id).where(ScriptRow.id == _checked(script_id), ScriptRow.owner == owner)
    if session.scalar(query) is None:
        raise ScriptNotFound("cards.script_gone")


def lock_row(*, session: Session, script_id: str, owner: str, touch: bool = True) -> ScriptRow:
    """Lock and return the script's row until the transaction ends. Raises ScriptNotFound.

    touch: update its time; False for work that does not change the script.
    """
    query = select(ScriptRow).where(ScriptRow.id == _checked(script_id), ScriptRow.owner == owner)
    row = session.scalar(query.with_for_update())
    if row is None:
        raise ScriptNotFound("cards.script_gone")
    if touch:
        row.updated = datetime.now(UTC)
    return row


def rename(*, session: Session, script_id: str, owner: str, name: str) -> ScriptRecord:
    """Rename a script. Raises ScriptNotFound, InvalidName."""
    lock_row(session=session, script_id=script_id, owner=owner).name = clean_script_name(name)
    session.flush()
    return record(session=session, script_id=script_id, owner=owner)


def set_author(*, session: Session, script_id: str, owner: str, author: str) -> ScriptRecord:
    """Set the author of the text. Raises ScriptNotFound, InvalidInput."""
    lock_row(session=session, script_id=script_id, owner=owner).author = checked_author(author)
    session.flush()
    return record(session=session, script_id=script_id, owner=owner)


def cover(*, session: Session, script_id: str, owner: str) -> bytes:
    """Return the cover; empty if there is none. Raises ScriptNotFound."""
    query = select(ScriptRow.id, CoverRow.picture).outerjoin(CoverRow, CoverRow.script_id == ScriptRow.id)
    found = session.execute(query.where(ScriptRow.id == _checked(script_id), ScriptRow.owner == owner)).first()
    if found is None:
        raise ScriptNotFound("cards.script_gone")
    return found.picture or b""


def set_cover(*, session: Session, script_id: str, owner: str, picture: bytes) -> ScriptRecord:
    """Replace the cover; an empty picture removes it. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, script_id=script_id, owner=owner)
    session.execute(delete(CoverRow).where(CoverRow.script_id == row.id))
    _put_cover(session, row.id, picture)
    return record(session=session, script_id=script_id, owner=owner)


def _put_cover(session: Session, script_id: str, picture: bytes) -> None:
    if len(picture) > MAX_COVER:
        raise InvalidInput("cards.bad_cover")
    if picture:
        session.add(CoverRow(script_id=script_id, mark=new_id(), picture=picture))
    session.flush()


def set_paragraph_pause(*, session: Session, script_id: str, owner: str, seconds: float) -> ScriptRecord:
    """Set the silence after each paragraph; pauses set by hand stay. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, script_id=script_id, owner=owner)
    row.paragraph_pause = checked_pause(seconds)
    session.execute(update(CardRow).where(CardRow.script_id == row.id, CardRow.ends_paragraph).values(pause=seconds))
    session.flush()
    return record(session=session, script_id=script_id, owner=owner)


def set_speeds(*, session: Session, script_id: str, owner: str, speed: float) -> None:
    """Set the playback speed of the takes of all cards. Raises ScriptNotFound, InvalidInput."""
    row = lock_row(session=session, script_id=script_id, owner=owner)
    session.execute(update(CardRow).where(CardRow.script_id == row.id).values(speed=checked_speed(speed)))


def remove(*, session: Session, script_id: str, owner: str) -> None:
    """Delete a script with its takes, except those in the history. Raises ScriptNotFound."""
    row = lock_row(session=session, script_id=script_id, owner=owner)
    delete_of_cards(session=session, card_ids=select(CardRow.id).where(CardRow.script_id == row.id))
    session.delete(row)


def lock_rows(*, session: Session, owner: str) -> None:
    """Lock all scripts of an owner until the transaction ends."""
    own = select(ScriptRow.id).where(ScriptRow.owner == owner).order_by(ScriptRow.id)
    session.scalars(own.with_for_update()).all()


def remove_all(*, session: Session, owner: str) -> None:
    """Delete all scripts of an owner, whose takes are deleted already."""
    session.execute(delete(ScriptRow).where(ScriptRow.owner == owner))


def clean_script_name(name: str) -> str:
    """Trim a name and collapse its white space. Raises InvalidName."""
    cleaned = " ".join(name.split())
    if not cleaned:
        raise InvalidName("cards.no_script_name")
    try:
        check_field(cleaned, "script_name", MAX_SCRIPT_NAME)
    except InvalidInput as error:
        raise InvalidName(error.message.key, **error.message.values) from error
    return cleaned


def checked_card_text(text: str) -> str:
    """Trim a card's text. Raises InvalidInput if it is empty or has more than 5,000 characters."""
    trimmed = text.strip()
    check_field(trimmed, "card_text", MAX_CARD_TEXT)
    if not trimmed:
        raise InvalidInput("cards.empty")
    return trimmed


def checked_speaker(speaker: str | None) -> str | None:
    """Trim a speaker's name; None if it is empty. Raises InvalidInput."""
    trimmed = " ".join((speaker or "").split())
    check_field(trimmed, "speaker_name", MAX_SPEAKER)
    return trimmed or None


def checked_author(author: str) -> str:
    """Trim an author's name, which may be empty, and collapse its white space. Raises InvalidInput."""
    cleaned = " ".join(author.split())
    check_field(cleaned, "author", MAX_AUTHOR)
    return cleaned


def checked_pause(pause: float) -> float:
    """Return the pause. Raises InvalidInput unless it is from 0 to 60 seconds."""
    check_number(pause, "pause", lowest=0, highest=MAX_PAUSE)
    return pause


def checked_speed(speed: float) -> float:
    """Return the speed in steps of a hundredth. Raises InvalidInput unless it is from 0.5 to 2."""
    check_number(speed, "speed", lowest=SLOWEST_CARD, highest=FASTEST_CARD)
    return round(speed, 2)


def checked_chapter(title: str | None) -> str | None:
    """Trim a chapter's title; None if it is empty. Raises InvalidInput."""
    trimmed = " ".join((title or "").split())
    check_field(trimmed, "chapter_title", MAX_CHAPTER)
    return trimmed or None


def check_voice(session: Session, voice_id: str | None, owner: str) -> None:
    """Raise VoiceNotFound unless the voice is None, a model's own, or one that the owner can use."""
    if voice_id is not None and not is_built_in_voice(voice_id):
        voices.record(session=session, voice_id=voice_id, owner=owner)


def check_count(cards: int) -> None:
    """Raise InvalidInput if a script cannot have this many cards."""
    if cards > MAX_CARDS:
        raise InvalidInput("cards.too_many", most=MAX_CARDS)


def _checked(script_id: str) -> str:
    if not is_id(script_id):
        raise ScriptNotFound("cards.script_gone")
    return script_id


@cache  # building it takes longer than adding conditions
def _with_totals() -> Select[ScriptRow, int, int, float | None, str | None]:
    """Query scripts with their number of cards, of cards with a chosen take, the seconds of those, and their cover."""
    return (
        select(
            ScriptRow,
            func.count(CardRow.id),
            func.count(CardTakeRow.take_id),
            func.sum(TakeRow.duration / CardRow.speed),
            CoverRow.mark,
        )
        .outerjoin(CoverRow, CoverRow.script_id == ScriptRow.id)
        .outerjoin(CardRow, CardRow.script_id == ScriptRow.id)
        .outerjoin(CardTakeRow, (CardTakeRow.card_id == CardRow.id) & CardTakeRow.chosen)
        .outerjoin(TakeRow, TakeRow.id == CardTakeRow.take_id)
        .group_by(ScriptRow.id, CoverRow.mark)
    )


def _record(row: ScriptRow, cards: int, done: int, spoken: float | None, cover: str | None) -> ScriptRecord:
    return ScriptRecord(
        id=row.id,
        name=row.name,
        updated=row.updated,
        cards=cards,
        done=done,
        spoken=spoken or 0.0,
        paragraph_pause=row.paragraph_pause,
        author=row.author,
        cover=cover,
    )
