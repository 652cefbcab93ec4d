"""The voice library. Every call is one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta

from sqlalchemy.orm import Session

from engine.errors import InvalidCodes, InvalidName, UnusableReference
from engine.voice import Consent, Voice, check_field, clean_name
from storage.database import Database
from storage.errors import VoiceNotFound
from storage.models import SHARED
from storage.object_store import StoredSound
from storage.repositories import owner_deletions, secrets, trash
from storage.repositories.voices import portraits, shared_voices, voices
from storage.repositories.voices.shared_voices import SampleVoice
from storage.repositories.voices.voices import VoiceRecord
from storage.validation import LOCAL, MAX_SEARCH, Clock, checked_owner, utc_now

TRASH_RETENTION = timedelta(minutes=10)  # how long a voice in the trash can be restored

VoiceRecords = list[VoiceRecord]  # defined here because `list` is a method of the class


class VoiceLibrary:
    """The voices of all owners. An owner has no access to the voices of another.

    All owners can use and export the shared voices but not change them: that raises VoiceProtected. Names are unique
    for each owner, regardless of case and of how accents are encoded; an owner's voice may be named like a shared one.
    A deleted voice can stay in the trash for TRASH_RETENTION; only `trashed`, `restore` and `empty_trash` find it
    there. All methods may raise DatabaseUnavailable, and VoiceNotFound for an id that is neither one of the owner's
    voices nor shared.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._reencoding = threading.Lock()

    def add(self, voice: Voice, *, owner: str = LOCAL, deletion_token: str | None = None) -> VoiceRecord:
        """Save a voice durably. deletion_token: from `Storage.deletion_token`. Raises NameTaken, OwnerDeleted."""
        with self._storing(voice) as clips, self._database.write() as session:
            owner_deletions.refuse_deleted(session=session, owner=owner, before=deletion_token)
            return voices.create(session=session, voice=voice, owner=checked_owner(owner), clips=clips)

    def replace_clips(
        self, before: VoiceRecord, voice: Voice, *, owner: str = LOCAL, deletion_token: str | None = None
    ) -> VoiceRecord:
        """Give a voice the clips, codes, name, language and consent of another; it keeps its id and everything else.

        The next `purge_expired` overwrites the old clips in the file.
        before: the voice as it was read. deletion_token: as for `add`.
        Raises NameTaken, OwnerDeleted, and VoiceChanged if the voice was changed since.
        """
        with self._storing(voice) as clips, self._database.replace() as session:
            owner_deletions.refuse_deleted(session=session, owner=owner, before=deletion_token)
            return voices.replace_references(
                session=session, before=before, voice=voice, owner=checked_owner(owner), clips=clips
            )

    def list(self, *, owner: str = LOCAL, search: str = "") -> VoiceRecords:
        """Return the owner's voices by name, then the shared ones.

        search: only voices with every word in name, description, tags or language, regardless of case and accents.
        Raises InvalidInput for a search of more than 200 characters.
        """
        check_field(search, "search", MAX_SEARCH)
        with self._database.read() as session:
            return voices.records(session=session, owner=checked_owner(owner), search=search)

    def get(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Return a voice without its clips and codes."""
        with self._database.read() as session:
            return voices.record(session=session, voice_id=voice_id, owner=checked_owner(owner))

    def owned(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Like `get`, but only for voices that the owner can change. Raises VoiceProtected for a shared one."""
        record = self.get(voice_id, owner=owner)
        voices.refuse_shared(record)
        return record

    def find(self, name: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Find a voice by name, regardless of case: the owner's, else the shared one. Raises VoiceNotFound."""
        return self._find(name, checked_owner(owner))

    def find_shared(self, name: str) -> VoiceRecord:
        """Find a shared voice by name, regardless of case. Raises VoiceNotFound."""
        return self._find(name, SHARED)

    def load(self, voice_id: str, *, owner: str = LOCAL) -> Voice:
        """Load a whole voice, with its picture and the codes of its original codec. Raises InvalidCodes if damaged."""
        with self._database.read() as session:
            record = voices.record(session=session, voice_id=voice_id, owner=checked_owner(owner))
            voice = voices.load(session=session, record=record, codec_fingerprint=record.codec_fingerprint)
            return replace(voice, portrait=portraits.of_voice(session=session, voice_id=voice_id))

    def stored(self, voice_id: str, codec_fingerprint: str, *, owner: str = LOCAL, clips: bool = True) -> Voice | None:
        """Load a voice with the codes of this codec; None if there are none. clips: whether with its clips."""
        with self._database.read() as session:
            record = voices.record(session=session, voice_id=voice_id, owner=checked_owner(owner))
            if not voices.has_codes(session=session, voice_id=voice_id, codec_fingerprint=codec_fingerprint):
                return None
            return voices.load(session=session, record=record, codec_fingerprint=codec_fingerprint, clips=clips)

    def ready(
        self, voice_id: str, codec_fingerprint: str, reencode: Callable[[Voice], Voice], *, owner: str = LOCAL
    ) -> Voice:
        """Load a whole voice with codes of the given codec.

        If there are none yet, `reencode` makes them once from the clips, and they are stored with the others, so that
        switching between models costs nothing. Callers in this process wait for the first; if several processes make
        them at once, the first stores its codes and all use those. Raises UnusableReference if a clip is needed and
        missing, and what `reencode` raises.
        """
        voice = self.stored(voice_id, codec_fingerprint, owner=owner)
        if voice is not None:
            return voice
        with self._reencoding:
            voice = self.stored(voice_id, codec_fingerprint, owner=owner)
            while voice is None:
                voice = self._keep(voice_id, self._reencoded(voice_id, codec_fingerprint, reencode, owner), owner)
            return voice

    def rename(self, voice_id: str, name: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Rename a voice. Raises NameTaken, InvalidName."""
        return self.update(voice_id, name=name, owner=owner)

    def update(
        self,
        voice_id: str,
        *,
        name: str | None = None,
        language: str | None = None,
        description: str | None = None,
        consent: Consent | None = None,
        tags: Sequence[str] | None = None,
        owner: str = LOCAL,
    ) -> VoiceRecord:
        """Change the given fields. The next `purge_expired` overwrites the old values in the file.

        tags: replace all tags.
        Raises NameTaken, InvalidName, InvalidInput.
        """
        with self._database.replace() as session:
            if name is not None:  # `free_name` may just have found it
                owner_deletions.lock(session=session, owner=checked_owner(owner))
            return voices.update(
                session=session,
                voice_id=voice_id,
                owner=checked_owner(owner),
                name=name,
                language=language,
                description=description,
                consent=consent,
                tags=tags,
            )

    def duplicate(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Copy a voice, own or shared, for the owner. A number is appended to the name if it is taken."""
        voice = self.load(voice_id, owner=owner)
        with self._storing(voice) as clips, self._database.write() as session:
            owner_deletions.lock(session=session, owner=owner)  # two calls would find the same free name
            record = voices.record(session=session, voice_id=voice_id, owner=checked_owner(owner))
            copy = replace(voice, name=trash.free_name(session=session, owner=owner, name=record.name))
            return voices.create(session=session, voice=copy, owner=owner, demo=record.demo, clips=clips)

    def trash(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Move a voice to the trash; its name is free at once. Returns the voice as it was."""
        now = self._clock()
        return self._database.delete(
            lambda session: trash.add(session=session, voice_id=voice_id, owner=checked_owner(owner), now=now),
            now=False,
        )

    def trashed(self, *, owner: str = LOCAL) -> VoiceRecords:
        """Return the owner's voices in the trash, newest first."""
        with self._database.read() as session:
            return self._trashed(session, owner)

    def list_with_trash(self, *, owner: str = LOCAL) -> tuple[VoiceRecords, VoiceRecords]:
        """Return what `list` and `trashed` return, as of one moment: each voice is in one of them."""
        with self._database.read() as session:
            found = voices.records(session=session, owner=checked_owner(owner))
            return found, self._trashed(session, owner)

    def _trashed(self, session: Session, owner: str) -> VoiceRecords:
        return trash.records(session=session, owner=checked_owner(owner), since=self._clock() - TRASH_RETENTION)

    def restore(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Restore a voice from the trash. A number is appended to its name if that has been taken."""
        with self._database.replace() as session:
            return trash.restore(session=session, voice_id=voice_id, owner=checked_owner(owner))

    def purge_expired(self) -> int:
        """Delete the voices of all owners that have been in the trash longer than TRASH_RETENTION; return their number.

        This also overwrites pending data of earlier deletions and changes of the whole database, and renews the disk
        reserve. Call it at the start and about every minute.
        """
        before = self._clock() - TRASH_RETENTION
        count = 0
        with self._database.read() as session:
            due = trash.has_expired(session=session, before=before)
        if due:
            count = self._database.delete(lambda session: trash.purge(session=session, before=before), now=False)
        self._database.maintain()
        return count

    def empty_trash(self, *, owner: str = LOCAL) -> int:
        """Delete the owner's voices in the trash as `delete` does; return their number."""
        return self._database.delete(lambda session: trash.empty(session=session, owner=checked_owner(owner)))

    def delete(self, voice_id: str, *, owner: str = LOCAL) -> None:
        """Delete a voice and overwrite its bytes in a SQLite file, in `purge_expired` at the latest."""
        self._database.delete(
            lambda session: voices.remove(session=session, voice_id=voice_id, owner=checked_owner(owner))
        )

    def export_voice(self, voice_id: str, *, owner: str = LOCAL) -> bytes:
        """Return a voice as a portable file (`Voice.to_bytes`)."""
        return self.load(voice_id, owner=owner).to_bytes()

    def import_voice(
        self, data: bytes, *, owner: str = LOCAL, name: str | None = None, deletion_token: str | None = None
    ) -> VoiceRecord:
        """Save a voice from a portable file, under another name if one is given. deletion_token: as for `add`.

        Raises InvalidVoiceFile for a file that is damaged or not a voice, InvalidName, NameTaken, OwnerDeleted.
        """
        voice = Voice.from_bytes(data)
        return self.add(
            voice if name is None else replace(voice, name=name), owner=owner, deletion_token=deletion_token
        )

    def free_name(self, name: str, *, owner: str = LOCAL) -> str:
        """Return a name that none of the owner's voices has: this one, with a number appended if it is taken."""
        with self._database.read() as session:
            return trash.free_name(session=session, owner=checked_owner(owner), name=clean_name(name))

    def secret(self, name: str) -> bytes:
        """Return the server's secret of that name, 32 random bytes, the same for every process."""
        with self._database.write() as session:
            return secrets.get_or_make(session=session, name=name)

    def share(self, samples: Sequence[SampleVoice]) -> bool:
        """Make these the shared voices; return whether anything changed.

        If several processes share the same voices at once, only one writes.
        Raises NameTaken if two of the voices have the same name.
        """
        with self._database.read() as session:
            if shared_voices.is_shared(session=session, samples=samples):
                return False
        with self._database.write_exclusively() as session:
            return shared_voices.share(session=session, samples=samples)

    def _find(self, name: str, owner: str) -> VoiceRecord:
        try:
            cleaned = clean_name(name)
        except InvalidName as error:
            raise VoiceNotFound("voices.not_named") from error
        with self._database.read() as session:
            return voices.record_by_name(session=session, name=cleaned, owner=owner)

    def _storing(self, voice: Voice) -> AbstractContextManager[Sequence[StoredSound]]:
        return self._database.storing([reference.clip for reference in voice.references])

    def _reencoded(
        self, voice_id: str, codec_fingerprint: str, reencode: Callable[[Voice], Voice], owner: str
    ) -> Voice:
        voice = self.load(voice_id, owner=owner)
        if not all(reference.clip for reference in voice.references):
            raise UnusableReference("voices.no_clip", name=voice.name)
        made = reencode(voice)
        if made.codec_fingerprint != codec_fingerprint or len(made.references) != len(voice.references):
            raise InvalidCodes("voices.other_codec", name=voice.name)
        return made

    def _keep(self, voice_id: str, made: Voice, owner: str) -> Voice | None:
        """Store new codes unless another process has stored some meanwhile; return the voice as stored.

        Returns None, and stores nothing, if its clips were replaced meanwhile.
        """
        fingerprint = made.codec_fingerprint
        with self._database.write() as session:
            voices.lock_row(session=session, voice_id=voice_id, owner=checked_owner(owner))
            record = voices.record(session=session, voice_id=voice_id, owner=checked_owner(owner))
            if not voices.has_codes(session=session, voice_id=voice_id, codec_fingerprint=fingerprint):
                stored = voices.load(session=session, record=record, codec_fingerprint=record.codec_fingerprint)
                if [each.clip for each in stored.references] != [each.clip for each in made.references]:
                    return None
                voices.add_codes(session=session, voice_id=voice_id, voice=made)
            return voices.load(session=session, record=record, codec_fingerprint=fingerprint)
