"""The shared voices: queries and changes within the caller's session."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from engine.voice import MAX_SENTENCE, Voice, check_field
from storage.models import SHARED, VoiceRow
from storage.repositories.voices import voices


@dataclass(frozen=True)
class SampleVoice:
    """A shared voice and a sentence that suits it. Raises InvalidInput for the sentence."""

    voice: Voice
    demo: str

    def __post_init__(self) -> None:
        check_field(self.demo, "demo", MAX_SENTENCE)

    @cached_property
    def id(self) -> str:
        """A hash of the voice and its sentence: the same in every library."""
        return hashlib.sha256(self.voice.to_bytes() + self.demo.encode()).hexdigest()[:32]


def is_shared(*, session: Session, samples: Sequence[SampleVoice]) -> bool:
    """Whether the shared voices are exactly these."""
    return _shared_ids(session) == {sample.id for sample in samples}


def share(*, session: Session, samples: Sequence[SampleVoice]) -> bool:
    """Make these the shared voices; voices that stay keep the codes of other codecs.

    Returns whether anything changed. Raises NameTaken if two of them have the same name.
    """
    wanted = {sample.id: sample for sample in samples}
    before = _shared_ids(session)
    session.execute(delete(VoiceRow).where(VoiceRow.id.in_(before - wanted.keys())))
    for voice_id in wanted.keys() - before:
        sample = wanted[voice_id]
        voices.create(session=session, voice=sample.voice, owner=SHARED, voice_id=voice_id, demo=sample.demo)
    return before != wanted.keys()


def _shared_ids(session: Session) -> set[str]:
    return set(session.scalars(select(VoiceRow.id).where(VoiceRow.owner == SHARED)))
