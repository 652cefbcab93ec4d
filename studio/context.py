"""The long-lived services of one process, made in one place."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import RepriseError
from studio.script.runner import ScriptRunner
from studio.takes.running import RunningTakes
from studio.takes.store import TakeStore

if TYPE_CHECKING:
    from storage import Storage
    from studio.model_manager import ModelManager


@dataclass(frozen=True)
class AppContext:
    """The services that every face works with.

    engine: the loaded model. storage: voices, history and scripts. takes: finished takes, in the history or in memory.
    running: takes under way. scripts: runs of scripts.
    """

    engine: ModelManager
    storage: Storage
    takes: TakeStore
    running: RunningTakes
    scripts: ScriptRunner

    @classmethod
    def create(cls, engine: ModelManager, storage: Storage) -> AppContext:
        """Make the services over a model and a storage. The caller closes both."""
        return cls(engine, storage, TakeStore(storage.history), RunningTakes(), ScriptRunner(engine, storage))

    def forget_voice(self, voice_id: str, *, owner: str) -> None:
        """Drop what the engine caches of a voice that is about to be deleted. A restored voice is cached again."""
        with suppress(RepriseError):  # damaged, missing or shared: deleting it raises the error
            own = self.storage.voices.own(voice_id, owner=owner)
            self.engine.forget(self.storage.voices.load(own.id, owner=owner))

    def delete_owner(self, owner: str) -> None:
        """Delete everything of an owner: cached voices, takes under way, takes in memory, and the storage."""
        for voice in self.storage.voices.list(owner=owner):
            if not voice.shared:
                self.forget_voice(voice.id, owner=owner)
        with self.takes.deleting_owner(owner):
            self.storage.forget(owner)
