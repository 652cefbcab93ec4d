"""Consent to cloning as programs send it: the speaker's name, or the id of a recorded consent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.audio.decode import decode
from engine.errors import InvalidInput
from engine.voice import Consent
from storage.validation import is_id
from studio.voices.languages import clean_language

if TYPE_CHECKING:
    from storage import Storage
    from storage.voices.voice_consents import ConsentRecord

AGREED = "The speaker has agreed to have this voice cloned."
AGREED_IN_RECORDING = "The speaker has agreed in a recording to have this voice cloned."
NO_CONSENT = "consent: a voice can be saved only when its speaker has agreed; send the name of who has."


def given_consent(storage: Storage, consent: str, *, owner: str) -> Consent:
    """Return the consent that a program sent. Raises InvalidInput if it is empty, ConsentNotFound for an unknown id."""
    who = consent.strip()
    if not who:
        raise InvalidInput(NO_CONSENT)
    if is_id(who):
        recorded = storage.consents.get(who, owner=owner)
        return Consent(who=recorded.name, when=recorded.created, sentence=AGREED_IN_RECORDING)
    return agreed_by(who)


def agreed_by(who: str) -> Consent:
    """Return the consent of a speaker who agrees now."""
    return Consent(who=who, when=datetime.now(UTC), sentence=AGREED)


def record_consent(storage: Storage, name: str, language: str, recording: bytes, *, owner: str) -> ConsentRecord:
    """Store a recording of a speaker's consent. recording: a file of at most 90 s, in any format of clips.

    language: a tag or an English name.

    Raises UnusableReference for a file that cannot be decoded, InvalidInput, OwnerDeleted.
    """
    tag = clean_language(language)
    deletion_token = storage.deletion_token(owner=owner)
    decode(recording)
    return storage.consents.add(name, tag, recording, owner=owner, deletion_token=deletion_token)
