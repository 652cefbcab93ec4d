"""The voice library as the rest of the product sees it: every call one transaction, safe from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from engine.errors import InvalidCodes, InvalidInput, InvalidName, UnusableReference, VoiceNotFound
from engine.voice import Consent, Voice, check_text, clean_name
from storage.database import Database
from storage.repositories import secrets, shared_voices, trash, voices
from storage.repositories.shared_voices import Sample
from storage.repositories.voices import VoiceRecord

LOCAL = "local"  # the owner where nobody logs in
MAX_OWNER = 200  # characters
MAX_SEARCH = 200  # characters
UNDO_TIME = timedelta(minutes=10)  # how long what was set aside can be put back

Records = list[VoiceRecord]  # named here because inside the class `list` is the method


class VoiceLibrary:
    """Voices kept for ever, each owner's apart: nobody sees, finds or changes a voice of another owner.

    The shared voices are beside everyone's own, to speak with and to export, and nobody's to change: that raises
    VoiceProtected. Names are unique for their owner, whatever the case of their letters and however accents are
    encoded; a voice of one's own may have the name of a shared one. All methods may raise DatabaseUnavailable,
    and VoiceNotFound for an id that is neither one of the owner's voices nor shared. What was set aside is gone for
    all of them but `put_back`, and gone for good once `sweep` has come by.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """clock: gives the time, aware."""
        self._database = database
        self._clock = clock
        self._reencoding = threading.Lock()

    @classmethod
    def open(cls, url_or_path: str | Path, *, busy_timeout: float = 10.0) -> VoiceLibrary:
        """Open or make the library in a SQLite file (private to the user) or at a PostgreSQL URL; migrate it.

        `busy_timeout`: seconds to wait while another process writes to the same SQLite file.
        Raises DatabaseUnavailable when there is no reading and writing it, or a newer version wrote it.
        """
        return cls(Database.open(url_or_path, busy_timeout=busy_timeout))

    def add(self, voice: Voice, *, owner: str = LOCAL) -> VoiceRecord:
        """Save a voice; when this returns, it is on the disk. Raises NameTaken."""
        with self._database.write() as session:
            return voices.create(session=session, voice=voice, owner=_owner(owner))

    def list(self, *, owner: str = LOCAL, search: str = "") -> Records:
        """The owner's voices by name, then the shared ones: those whose name, description, tags and language hold
        every word searched, in any case and with or without accents.

        Raises InvalidInput for a search of more than 200 characters.
        """
        check_text(search, "search", MAX_SEARCH)
        with self._database.read() as session:
            return voices.records(session=session, owner=_owner(owner), search=search)

    def get(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """What is known of a voice, without its clips and codes."""
        with self._database.read() as session:
            return voices.record(session=session, voice_id=voice_id, owner=_owner(owner))

    def own(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """As `get`, for who is about to change the voice. Raises VoiceProtected for a shared one."""
        record = self.get(voice_id, owner=owner)
        voices.refuse_shared(record)
        return record

    def find(self, name: str, *, owner: str = LOCAL) -> VoiceRecord:
        """The voice of that name, in any case: the owner's, or else the shared one. Raises VoiceNotFound."""
        try:
            cleaned = clean_name(name)
        except InvalidName as error:
            raise VoiceNotFound("There is no voice of that name.") from error
        with self._database.read() as session:
            return voices.record_by_name(session=session, name=cleaned, owner=_owner(owner))

    def load(self, voice_id: str, *, owner: str = LOCAL) -> Voice:
        """The whole voice, with the codes of the codec it was made with. Raises InvalidCodes if damaged."""
        with self._database.read() as session:
            record = voices.record(session=session, voice_id=voice_id, owner=_owner(owner))
            return voices.load(session=session, record=record, codec_fingerprint=record.codec_fingerprint)

    def ready(
        self, voice_id: str, codec_fingerprint: str, reencode: Callable[[Voice], Voice], *, owner: str = LOCAL
    ) -> Voice:
        """The whole voice, with codes of the given codec.

        Where that codec has made none yet, `reencode` makes them from the clips, once, and they are kept
        beside the others, so that going back and forth between models costs nothing. In this process callers
        wait for the first; of several processes that made them at once, one stores its own and all use those.
        Raises UnusableReference when a clip would be needed and is missing, and whatever `reencode` raises.
        """
        voice = self._stored(voice_id, codec_fingerprint, owner)
        if voice is not None:
            return voice
        with self._reencoding:
            voice = self._stored(voice_id, codec_fingerprint, owner)
            if voice is not None:
                return voice
            return self._keep(voice_id, self._reencoded(voice_id, codec_fingerprint, reencode, owner), owner)

    def rename(self, voice_id: str, name: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Give a voice another name. Raises NameTaken, InvalidName."""
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
        """Change what is given and leave the rest; what was there before is overwritten by the next `sweep`.

        tags: all that it then has.
        Raises NameTaken, InvalidName, InvalidInput.
        """
        with self._database.replace() as session:
            return voices.update(
                session=session,
                voice_id=voice_id,
                owner=_owner(owner),
                name=name,
                language=language,
                description=description,
                consent=consent,
                tags=tags,
            )

    def duplicate(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """A copy of the owner's own of a voice, also of a shared one. Its name has a number where it must."""
        with self._database.write() as session:
            record = voices.record(session=session, voice_id=voice_id, owner=_owner(owner))
            voice = voices.load(session=session, record=record, codec_fingerprint=record.codec_fingerprint)
            name = trash.free_name(session=session, owner=owner, name=record.name)
            return voices.create(session=session, voice=replace(voice, name=name), owner=owner, demo=record.demo)

    def set_aside(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Delete a voice so that it can be put back for ten minutes; its name is free at once. Returns what it was."""
        now = self._clock()
        return self._database.delete(
            lambda session: trash.set_aside(session=session, voice_id=voice_id, owner=_owner(owner), now=now), now=False
        )

    def aside(self, *, owner: str = LOCAL) -> Records:
        """The owner's voices that can be put back, the one set aside last first."""
        with self._database.read() as session:
            return trash.records(session=session, owner=_owner(owner), since=self._clock() - UNDO_TIME)

    def put_back(self, voice_id: str, *, owner: str = LOCAL) -> VoiceRecord:
        """Undo `set_aside`. Where another voice has its name by now, this one gets a number behind it."""
        with self._database.replace() as session:
            return trash.put_back(session=session, voice_id=voice_id, owner=_owner(owner))

    def sweep(self) -> int:
        """Delete what can no longer be put back, of all owners, as `delete` does; returns how many there were.

        It also overwrites what earlier deletions and changes of anything in the database left to be overwritten, and
        keeps room on the disk for deleting. To be called when the product starts, and every minute or so.
        """
        time = self._clock() - UNDO_TIME
        count = 0
        with self._database.read() as session:
            due = trash.any_before(session=session, time=time)
        if due:
            count = self._database.delete(lambda session: trash.remove_before(session=session, time=time), now=False)
        self._database.maintain()
        return count

    def delete_aside(self, *, owner: str = LOCAL) -> int:
        """Delete what the owner has set aside, as `delete` does; returns how many there were."""
        return self._database.delete(lambda session: trash.remove_all(session=session, owner=_owner(owner)))

    def delete(self, voice_id: str, *, owner: str = LOCAL) -> None:
        """Delete a voice. Of a SQLite file its bytes are overwritten; where a reader is in the way, by `sweep`."""
        self._database.delete(lambda session: voices.remove(session=session, voice_id=voice_id, owner=_owner(owner)))

    def delete_all(self, owner: str) -> int:
        """Delete all voices of an owner, as `delete` does; returns how many there were."""
        return self._database.delete(lambda session: voices.remove_all(session=session, owner=_owner(owner)))

    def export_voice(self, voice_id: str, *, owner: str = LOCAL) -> bytes:
        """The voice as one portable file (`Voice.to_bytes`)."""
        return self.load(voice_id, owner=owner).to_bytes()

    def import_voice(self, data: bytes, *, owner: str = LOCAL, name: str | None = None) -> VoiceRecord:
        """Save a voice from a portable file, under another name if one is given.

        Raises InvalidVoiceFile when the file is damaged or not one of ours, InvalidName, NameTaken.
        """
        voice = Voice.from_bytes(data)
        return self.add(voice if name is None else replace(voice, name=name), owner=owner)

    def secret(self, name: str) -> bytes:
        """The server's own secret of that name, 32 random bytes: made once, then the same for all who open the
        library."""
        with self._database.write() as session:
            return secrets.get_or_make(session=session, name=name)

    def share(self, samples: Sequence[Sample]) -> bool:
        """Have exactly these as the shared voices; returns whether any had to be written or taken away.

        Of processes that share the same at once, one writes and the others find it done.
        Raises NameTaken when two of them have one name.
        """
        with self._database.read() as session:
            if shared_voices.is_shared(session=session, samples=samples):
                return False
        with self._database.write_alone() as session:
            return shared_voices.share(session=session, samples=samples)

    def close(self) -> None:
        """Let go of the database. The library cannot be used afterwards."""
        self._database.close()

    def __enter__(self) -> VoiceLibrary:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stored(self, voice_id: str, codec_fingerprint: str, owner: str) -> Voice | None:
        """The voice with the codes that this codec made, None when it has made none."""
        with self._database.read() as session:
            record = voices.record(session=session, voice_id=voice_id, owner=_owner(owner))
            if not voices.has_codes(session=session, voice_id=voice_id, codec_fingerprint=codec_fingerprint):
                return None
            return voices.load(session=session, record=record, codec_fingerprint=codec_fingerprint)

    def _reencoded(
        self, voice_id: str, codec_fingerprint: str, reencode: Callable[[Voice], Voice], owner: str
    ) -> Voice:
        voice = self.load(voice_id, owner=owner)
        if not all(reference.clip for reference in voice.references):
            raise UnusableReference(
                f"The voice “{voice.name}” was made for another model, and has no clip to make it again from."
            )
        made = reencode(voice)
        if made.codec_fingerprint != codec_fingerprint or len(made.references) != len(voice.references):
            raise InvalidCodes(f"The voice “{voice.name}” was made again, but not with the codec that was asked for.")
        return made

    def _keep(self, voice_id: str, made: Voice, owner: str) -> Voice:
        """Store codes made again, unless another process has done so meanwhile; give back what is stored."""
        fingerprint = made.codec_fingerprint
        with self._database.write() as session:
            voices.lock(session=session, voice_id=voice_id, owner=_owner(owner))
            record = voices.record(session=session, voice_id=voice_id, owner=_owner(owner))
            if not voices.has_codes(session=session, voice_id=voice_id, codec_fingerprint=fingerprint):
                voices.add_codes(session=session, voice_id=voice_id, voice=made)
            return voices.load(session=session, record=record, codec_fingerprint=fingerprint)


def _owner(owner: str) -> str:
    check_text(owner, "owner", MAX_OWNER)
    if not owner:
        raise InvalidInput("A voice needs an owner.")
    return owner
