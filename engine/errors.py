"""The root of Reprise's error tree, and the engine's errors. Every message is a sentence for the user.

    raise InvalidName("voices.long_name", most=MAX_NAME, count=len(name))
    raise InvalidOption("This command needs the package “ray”.")

Messages that a page can show are named by their key (`engine.messages`). Messages that only the command line and the
API show are English text instead of a key. The library's errors are in `storage.errors`; other parts have their few
errors beside the code that raises them.

RepriseError
├── InvalidInput             the request cannot be served as it stands; the message says what to change
│   ├── UnreadableFile       a named file is missing, too large, or not a regular file
│   ├── UnusableReference    a reference clip that cannot be used for cloning
│   ├── InvalidText          nothing to say, or text that cannot be spoken
│   ├── InvalidOption        a setting outside its range
│   ├── InvalidName          a voice's name is empty or too long
│   ├── InvalidCodes         serialized codes are damaged, of an unknown version, or do not fit the codec
│   └── InvalidVoiceFile     an imported voice file is damaged or of another format
├── ReleaseError             a model release cannot be used
│   ├── ReleaseNotFound      no such folder, repository or file
│   ├── ReleaseForbidden     gated or private: a licence must be accepted or a token given
│   ├── ReleaseIncomplete    files are missing or cut short
│   ├── UnknownFamily        the model's family is not supported
│   ├── FaultyRelease        its contents are wrong
│   │   ├── InvalidConfig      a configuration has unknown, missing or contradictory values
│   │   └── InvalidCheckpoint  tensors are missing, unexpected or misshapen
│   └── DoesNotFit           the device has too little memory for the model
└── EngineError              the engine cannot continue
    ├── EngineBusy           the limit of running and queued requests is reached
    ├── EngineFailed         a step of the model failed
    ├── EngineClosed         used after close() or before start()
    └── DeviceUnavailable    the requested device does not exist here
"""

from engine.messages import UserMessage, Value


class RepriseError(Exception):
    """Base class of all errors of Reprise. message: what is wrong and what to do; `str` gives it in English."""

    def __init__(self, key: str, /, **values: Value) -> None:
        """key, values: of the message, or the English text itself; see `UserMessage`."""
        super().__init__(key)
        self.message = UserMessage(key, values)

    def __str__(self) -> str:
        return str(self.message)


class InvalidInput(RepriseError, ValueError):
    """The request cannot be served as it stands."""


class UnreadableFile(InvalidInput):
    """A named file is missing, too large, or not a regular file."""


class UnusableReference(InvalidInput):
    """A reference clip that cannot be used for cloning."""


class InvalidText(InvalidInput):
    """Nothing to say, or text that cannot be spoken."""


class InvalidOption(InvalidInput):
    """A setting outside its range."""


class InvalidName(InvalidInput):
    """A voice's name is empty or too long."""


class InvalidCodes(InvalidInput):
    """Serialized codes are damaged, of an unknown version, or do not fit the codec."""


class InvalidVoiceFile(InvalidInput):
    """An imported voice file is damaged or of another format."""


class ReleaseError(RepriseError):
    """A model release cannot be used."""


class ReleaseNotFound(ReleaseError):
    """No such folder, repository or file."""


class ReleaseForbidden(ReleaseError):
    """Gated or private: a licence must be accepted or a token given."""


class ReleaseIncomplete(ReleaseError):
    """Files are missing or cut short."""


class UnknownFamily(ReleaseError):
    """The model's family is not supported."""


class FaultyRelease(ReleaseError):
    """The contents of a release are wrong. fault: an English sentence for its publisher."""

    def __init__(self, fault: str) -> None:
        super().__init__("release.fault", fault=fault)


class InvalidConfig(FaultyRelease):
    """A configuration has unknown, missing or contradictory values."""


class InvalidCheckpoint(FaultyRelease):
    """Tensors are missing, unexpected or misshapen."""


class DoesNotFit(ReleaseError):
    """The device has too little memory for the model."""


class EngineError(RepriseError):
    """The engine cannot continue."""


class EngineBusy(EngineError):
    """The limit of running and queued requests is reached."""


class EngineFailed(EngineError):
    """A step of the model failed, for example for lack of memory."""


class EngineClosed(EngineError):
    """The engine was used after close() or before start()."""

    def __init__(self, key: str = "engine.closed", /, **values: Value) -> None:
        super().__init__(key, **values)


class DeviceUnavailable(EngineError):
    """The requested device does not exist here."""


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, cut after 200 characters."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()[:200]
