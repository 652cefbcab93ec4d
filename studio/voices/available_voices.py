"""The voices that an owner can speak with: the loaded model's own, and those of the library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.voice import BuiltInVoice, Voice, is_built_in_voice
from storage.errors import VoiceNotFound
from storage.repositories.folding import fold_case
from storage.repositories.voices.voices import VoiceRecord

if TYPE_CHECKING:
    from engine.families.family import Capabilities
    from storage import VoiceLibrary
    from studio.engines.model_manager import ModelManager
    from studio.engines.speech_engine import SpeechEngine

BUILT_IN_PREFIX = "model:"  # prefix of the name of one of the model's built-in voices, in file tags and responses


@dataclass(frozen=True)
class BuiltInSpeaker:
    """One of the loaded model's built-in speakers, with the fields of a `VoiceRecord` that lists of voices show."""

    speaker: str
    language: str = ""
    description: str = ""
    demo: str = ""
    tags: tuple[str, ...] = ()
    shared: bool = True

    @property
    def id(self) -> str:
        return BuiltInVoice(self.speaker).id

    @property
    def name(self) -> str:
        """The speaker's display name: `uncle_fu` is Uncle Fu."""
        return " ".join(part.capitalize() for part in self.speaker.split("_"))

    def is_called(self, name: str) -> bool:
        """Return whether this is its name, regardless of case."""
        return fold_case(name.strip()) in self.name_keys

    @property
    def name_keys(self) -> set[str]:
        """The folded names that it is called by."""
        return {fold_case(self.speaker), fold_case(self.name)}


ListedVoice = VoiceRecord | BuiltInSpeaker
ListedVoices = list[ListedVoice]  # defined here because `list` is a method of the class


@dataclass(frozen=True)
class ReadyVoice:
    """A voice ready for the loaded model. language: selects its pronunciations.

    id: of a saved voice, `model:NAME` for one of the model's own, None for a clip that is not saved.
    """

    name: str
    language: str
    voice: Voice | BuiltInVoice
    id: str | None


class AvailableVoices:
    """The voices for the loaded model. All methods may raise what those of `VoiceLibrary` raise."""

    def __init__(self, engine: ModelManager | SpeechEngine, library: VoiceLibrary) -> None:
        self._engine, self._library = engine, library

    def built_in(self) -> list[BuiltInSpeaker]:
        """Return the model's built-in speakers, in the order of the release."""
        return list(map(BuiltInSpeaker, self._engine.info.capabilities.speakers))

    def list(self, *, owner: str) -> ListedVoices:
        """List the model's built-in voices, then the owner's by name, then the sample voices."""
        return [*self.built_in(), *self._library.list(owner=owner)]

    def get(self, voice_id: str, *, owner: str) -> ListedVoice:
        """Return a voice by id. Raises VoiceNotFound, also for a speaker of a model that is not loaded."""
        if not is_built_in_voice(voice_id):
            return self._library.get(voice_id, owner=owner)
        for voice in self.built_in():
            if voice.id == voice_id:
                return voice
        raise VoiceNotFound("voices.of_other_model")

    def find(self, name: str, *, owner: str) -> ListedVoice:
        """Find a voice by name, ignoring case: the model's own, the owner's, or a sample. Raises VoiceNotFound."""
        return self._find_built_in(name) or self._library.find(name, owner=owner)

    def find_shared(self, name: str) -> ListedVoice:
        """Find a voice of all owners by name, ignoring case: the model's own, or a sample. Raises VoiceNotFound."""
        return self._find_built_in(name) or self._library.find_shared(name)

    def ready(self, voice_id: str, *, owner: str, instructions: str = "") -> ReadyVoice:
        """Return a voice for `speak`, with codes for the loaded model.

        instructions: how to speak, for speakers that follow them and for described voices. Raises what
        `VoiceLibrary.ready` and `Engine.reencode` raise.
        """
        found, capabilities = self.get(voice_id, owner=owner), self._engine.info.capabilities
        if isinstance(found, BuiltInSpeaker):
            voice = BuiltInVoice(found.speaker, instructions if capabilities.follows_instructions else "")
            return ReadyVoice(found.name, "", voice, BUILT_IN_PREFIX + found.speaker)
        if capabilities.designs_voices and is_described(found):
            description = f"{found.description} {instructions}".strip()
            return ReadyVoice(found.name, found.language, BuiltInVoice(description=description), found.id)
        saved = self._library.ready(voice_id, self._engine.info.codec_fingerprint, self._engine.reencode, owner=owner)
        return ReadyVoice(saved.name, saved.language, saved, found.id)

    def _find_built_in(self, name: str) -> BuiltInSpeaker | None:
        return next((voice for voice in self.built_in() if voice.is_called(name)), None)


def by_name(listed: Iterable[ListedVoice]) -> ListedVoices:
    """Return the voices that `find` finds by their names: of those with the same name, the first that `list` has.

    listed: as `list` returns them.
    """
    found, taken = [], set[str]()
    for voice in listed:
        if fold_case(voice.name) not in taken:
            found.append(voice)
        taken |= voice.name_keys if isinstance(voice, BuiltInSpeaker) else {fold_case(voice.name)}
    return found


def capabilities_of(model: str) -> Capabilities | None:
    """Return the capabilities of a model without loading it; None if it is not on this machine. Raises ReleaseError."""
    from engine.families.registry import read_release
    from engine.release.hub import known_release

    folder = known_release(model)
    return None if folder is None else read_release(folder).capabilities


def built_in_voices_of(model: str) -> list[BuiltInSpeaker] | None:
    """Return a model's built-in speakers without loading it; None if it is not on this machine. Raises ReleaseError."""
    capabilities = capabilities_of(model)
    return None if capabilities is None else list(map(BuiltInSpeaker, capabilities.speakers))


def is_described(voice: VoiceRecord) -> bool:
    """Return whether a voice was created from a description. It imitates no one, so it has no consent."""
    return bool(voice.description) and voice.consent is None and not voice.shared
