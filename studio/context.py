"""The long-lived services of one process, created in one place."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import RepriseError
from storage.errors import VoiceNotFound
from studio.proof.runner import ProofRunner
from studio.proof.takes import TakeProofs
from studio.recognition import WhisperRecogniser
from studio.script.runner import ScriptRunner
from studio.takes.requests import TakeStarter
from studio.takes.running import RunningTakes
from studio.takes.store import TakeStore
from studio.voices.available_voices import AvailableVoices

if TYPE_CHECKING:
    from engine.voice import Voice
    from storage import Storage, VoiceRecord
    from studio.engines.model_manager import ModelManager
    from studio.provenance.watermark import Watermark


@dataclass(frozen=True)
class AppContext:
    """The services shared by all interfaces.

    engine: the loaded model. storage: voices, history and scripts. takes: finished takes, in the history or in memory.
    running: takes being generated. take_starter: starts takes. script_runner: runs of scripts. recognition: speech
    recognition. proof_runner: proof-listening of scripts. take_proofs: proof-listening of single takes. watermark: for
    the files of takes; None if they are not marked.
    """

    engine: ModelManager
    storage: Storage
    takes: TakeStore
    running: RunningTakes
    take_starter: TakeStarter
    script_runner: ScriptRunner
    recognition: WhisperRecogniser
    proof_runner: ProofRunner
    take_proofs: TakeProofs
    watermark: Watermark | None = field(default=None, kw_only=True)

    @property
    def voices(self) -> AvailableVoices:
        """The voices for the loaded model."""
        return AvailableVoices(self.engine, self.storage.voices)

    @classmethod
    def create(cls, engine: ModelManager, storage: Storage, watermark: Watermark | None = None) -> AppContext:
        """Create the services for a model and a storage. The caller closes both."""
        script_runner, recognition = ScriptRunner(engine, storage, watermark), WhisperRecogniser(storage.settings)
        proof_runner = ProofRunner(storage, script_runner, recognition)
        takes, take_starter = TakeStore(storage), TakeStarter(engine, storage, watermark)
        take_proofs = TakeProofs(engine, takes, take_starter, AvailableVoices(engine, storage.voices), recognition)
        return cls(
            engine,
            storage,
            takes,
            RunningTakes(),
            take_starter,
            script_runner,
            recognition,
            proof_runner,
            take_proofs,
            watermark=watermark,
        )

    def trash_voice(self, voice_id: str, *, owner: str) -> None:
        """Move a voice to the trash and drop its data from the engine's caches. A restored voice is cached again.

        Raises what `VoiceLibrary.trash` raises; the caches are kept then.
        """
        cached = self._cached_voice(voice_id, owner)
        self.storage.voices.trash(voice_id, owner=owner)
        self._forget(cached)

    def replace_clips(self, before: VoiceRecord, voice: Voice, *, owner: str, deletion_token: str) -> VoiceRecord:
        """Give a voice the clips of another, and drop the data of the old ones from the engine's caches.

        Raises what `VoiceLibrary.replace_clips` raises; the caches are kept then.
        """
        cached = self._cached_voice(before.id, owner)
        record = self.storage.voices.replace_clips(before, voice, owner=owner, deletion_token=deletion_token)
        self._forget(cached)
        return record

    def delete_owner(self, owner: str) -> None:
        """Delete all data of an owner: in storage, takes in memory, takes being generated, and cached voices.

        Raises DatabaseUnavailable; nothing is deleted then.
        """
        own = [voice.id for voice in self.storage.voices.list(owner=owner) if not voice.shared]
        cached = [self._cached_voice(voice_id, owner) for voice_id in own]
        self.storage.delete_owner(owner)
        self.takes.delete_owner(owner)
        self.take_proofs.forget(owner)
        for voice in cached:
            self._forget(voice)

    def prepare_voice(self, voice_id: str, owner: str) -> None:
        """Begin to prepare the first speech in a voice that an owner has chosen. Errors are left to speaking."""
        engine = self.engine
        if engine.info.capabilities.clones:
            with suppress(RepriseError):
                before = self.storage.voices.get(voice_id, owner=owner)
                clips = engine.info.capabilities.uses_clips
                voice = self.storage.voices.stored(voice_id, engine.info.codec_fingerprint, owner=owner, clips=clips)
                if voice is None:
                    return
                engine.prepare(voice)
                try:
                    changed = self.storage.voices.get(voice_id, owner=owner) != before
                except VoiceNotFound:
                    changed = True
                if changed:  # deleted, or its clips replaced, in the meantime
                    engine.forget(voice)

    def _cached_voice(self, voice_id: str, owner: str) -> Voice | None:
        """Return the voice for which the engine may have cached data; None if there is none."""
        with suppress(RepriseError):  # damaged, missing or shared: deleting it raises the error
            own, engine = self.storage.voices.owned(voice_id, owner=owner), self.engine
            clips = engine.info.capabilities.uses_clips  # caches are keyed by them
            return self.storage.voices.stored(own.id, engine.info.codec_fingerprint, owner=owner, clips=clips)
        return None

    def _forget(self, voice: Voice | None) -> None:
        if voice is not None:
            with suppress(RepriseError):  # damaged codes, which were never cached
                self.engine.forget(voice)
