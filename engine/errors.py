"""The one error tree of Reprise. Every message is a sentence for the person at the page.

RepriseError
├── InvalidInput             the request cannot be served as it stands; the message says what to change
│   ├── UnreadableFile       a named file is missing, too large, or no regular file
│   ├── UnusableReference    a reference clip that cannot be cloned from
│   ├── InvalidText          nothing to say, or text that cannot be spoken
│   ├── InvalidOption        a setting outside its range
│   ├── InvalidName          a voice's name is empty or too long
│   ├── InvalidCodes         serialized codes are damaged, of an unknown version, or do not fit the codec
│   └── InvalidVoiceFile     an imported voice file is damaged or not one of ours
├── LibraryError             the voice library refused
│   ├── NameTaken            the owner already has a voice of that name
│   ├── VoiceNotFound        no such voice for this owner
│   ├── GenerationNotFound   no such generation for this owner
│   ├── ScriptNotFound       no such script, or no such card of one, for this owner
│   ├── VoiceProtected       a sample voice, which everyone shares and nobody changes
│   └── DatabaseUnavailable  the database cannot be opened or used, or is of a newer version
│       └── DiskFull         its disk is full, and nothing was changed
├── ReleaseError             a model release cannot be used
│   ├── ReleaseNotFound      no such folder, repository or file
│   ├── ReleaseForbidden     gated or private: a licence must be accepted or a token given
│   ├── ReleaseIncomplete    files are missing or cut short
│   ├── InvalidConfig        a configuration has unknown, missing or contradictory values
│   ├── InvalidCheckpoint    tensors are missing, unexpected or misshapen
│   └── DoesNotFit           the device has too little memory for the model
└── EngineError              the engine cannot go on
    ├── EngineBusy           as many requests as it takes are speaking and waiting
    ├── EngineFailed         a step of the model failed
    ├── EngineClosed         used after close()
    └── DeviceUnavailable    the asked-for device does not exist here
"""


class RepriseError(Exception):
    """Root of all errors that Reprise raises on purpose."""


class InvalidInput(RepriseError, ValueError):
    """The request cannot be served as it stands."""


class UnreadableFile(InvalidInput):
    """A named file is missing, too large, or no regular file."""


class UnusableReference(InvalidInput):
    """A reference clip that cannot be cloned from."""


class InvalidText(InvalidInput):
    """Nothing to say, or text that cannot be spoken."""


class InvalidOption(InvalidInput):
    """A setting outside its range."""


class InvalidName(InvalidInput):
    """A voice's name is empty or too long."""


class InvalidCodes(InvalidInput):
    """Serialized codes are damaged, of an unknown version, or do not fit the codec."""


class InvalidVoiceFile(InvalidInput):
    """An imported voice file is damaged or not one of ours."""


class LibraryError(RepriseError):
    """The voice library refused."""


class NameTaken(LibraryError):
    """The owner already has a voice of that name."""


class VoiceNotFound(LibraryError, LookupError):
    """No such voice for this owner."""


class GenerationNotFound(LibraryError, LookupError):
    """No such generation for this owner."""


class ScriptNotFound(LibraryError, LookupError):
    """No such script, or no such card of one, for this owner."""


class VoiceProtected(LibraryError):
    """A sample voice, which everyone shares and nobody renames, changes or deletes."""


class DatabaseUnavailable(LibraryError):
    """The database cannot be opened or used, or was written by a newer version.

    detail: where the database is and what it reports, for the log and the command line; never for visitors of a page.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class DiskFull(DatabaseUnavailable):
    """The disk of the database is full; nothing was changed."""


class ReleaseError(RepriseError):
    """A model release cannot be used."""


class ReleaseNotFound(ReleaseError):
    """No such folder, repository or file."""


class ReleaseForbidden(ReleaseError):
    """Gated or private: a licence must be accepted or a token given."""


class ReleaseIncomplete(ReleaseError):
    """Files are missing or cut short."""


class InvalidConfig(ReleaseError):
    """A configuration has unknown, missing or contradictory values."""


class InvalidCheckpoint(ReleaseError):
    """Tensors are missing, unexpected or misshapen."""


class DoesNotFit(ReleaseError):
    """The device has too little memory for the model."""


class EngineError(RepriseError):
    """The engine cannot go on."""


class EngineBusy(EngineError):
    """As many requests as the engine takes are speaking and waiting."""


class EngineFailed(EngineError):
    """A step of the model failed, such as for want of memory."""


class EngineClosed(EngineError):
    """The engine was used after close()."""

    def __init__(self, message: str = "The engine is closed; load it again.") -> None:
        super().__init__(message)


class DeviceUnavailable(EngineError):
    """The asked-for device does not exist here."""


def first_line(error: BaseException) -> str:
    """What another library's error says, short enough for a sentence of ours."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()[:200]
