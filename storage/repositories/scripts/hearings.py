"""Hearings, a recogniser's transcripts of takes: queries and changes within the caller's session."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from engine.voice import check_field
from storage.database_errors import damaged
from storage.models import CardRow, CardTakeRow, TakeHearingRow
from storage.repositories.scripts import cards, scripts
from storage.validation import check_number

_MAX_HEARD = 50_000  # characters
_MAX_RECOGNISER = 200


@dataclass(frozen=True)
class Hearing:
    """A recogniser's transcript of a take.

    word_error: differing words per word of the text, finite; 0 if all are right.
    marks: the words of the text that differ, as character ranges [from, to). recogniser: its name. Raises
    InvalidInput.
    """

    heard: str
    word_error: float
    marks: tuple[tuple[int, int], ...]
    recogniser: str

    def __post_init__(self) -> None:
        check_field(self.heard, "text", _MAX_HEARD)
        check_field(self.recogniser, "model_name", _MAX_RECOGNISER)
        check_number(self.word_error, "word_error", lowest=0)


def of_script(*, session: Session, script_id: str, owner: str) -> dict[str, Hearing]:
    """Return the hearings of a script's chosen takes, by take. Raises ScriptNotFound, and DatabaseUnavailable for
    damaged ones.
    """
    scripts.check_exists(session=session, script_id=script_id, owner=owner)
    query = (
        select(TakeHearingRow)
        .join(CardTakeRow, CardTakeRow.take_id == TakeHearingRow.take_id)
        .join(CardRow, CardRow.id == CardTakeRow.card_id)
        .where(CardRow.script_id == script_id, CardTakeRow.chosen)
    )
    return {row.take_id: _hearing(row) for row in session.scalars(query)}


def keep(*, session: Session, card_id: str, take_id: str, owner: str, hearing: Hearing) -> None:
    """Store the hearing of a card's take, replacing an earlier one.

    Raises ScriptNotFound, and InvalidInput if the card has no such take.
    """
    row = cards.lock_row(session=session, card_id=card_id, owner=owner)
    cards.lock_take(session, row, take_id)
    session.merge(
        TakeHearingRow(
            take_id=take_id,
            heard=hearing.heard,
            word_error=hearing.word_error,
            marks=json.dumps(hearing.marks),
            recogniser=hearing.recogniser,
        )
    )
    session.flush()


def _hearing(row: TakeHearingRow) -> Hearing:
    try:
        marks = tuple((int(start), int(end)) for start, end in json.loads(row.marks))
        return Hearing(row.heard, row.word_error, marks, row.recogniser)
    except (TypeError, ValueError, InvalidInput) as error:
        raise damaged("a hearing whose marks, numbers or texts are not valid") from error
