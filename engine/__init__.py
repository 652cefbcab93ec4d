"""Reprise's speech engine: clone a voice from a clip and speak any text in it, as a stream.

Public API. Everything but the errors is imported on first use, so that `engine.errors`, `engine.voice` and other light
modules can be imported without loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from engine.errors import (
    DeviceUnavailable,
    DoesNotFit,
    EngineBusy,
    EngineClosed,
    EngineError,
    EngineFailed,
    InvalidInput,
    InvalidOption,
    InvalidText,
    ReleaseError,
    RepriseError,
    UnusableReference,
)

__version__ = "0.1.0"  # of Reprise

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.info import EngineInfo, EngineStatus
    from engine.options import SpeakOptions
    from engine.outputs import AudioChunk, SpeechResult
    from engine.request.speech import Speech
    from engine.voice import BuiltInVoice, Consent, EncodedVoice, Reference, Voice

__all__ = [
    "AudioChunk",
    "BuiltInVoice",
    "Consent",
    "DeviceUnavailable",
    "DoesNotFit",
    "EncodedVoice",
    "Engine",
    "EngineBusy",
    "EngineClosed",
    "EngineError",
    "EngineFailed",
    "EngineInfo",
    "EngineStatus",
    "InvalidInput",
    "InvalidOption",
    "InvalidText",
    "Reference",
    "ReleaseError",
    "RepriseError",
    "SpeakOptions",
    "Speech",
    "SpeechResult",
    "UnusableReference",
    "Voice",
]

_MODULES = {
    "engine.engine": ("Engine",),
    "engine.info": ("EngineInfo", "EngineStatus"),
    "engine.options": ("SpeakOptions",),
    "engine.outputs": ("AudioChunk", "SpeechResult"),
    "engine.request.speech": ("Speech",),
    "engine.voice": ("BuiltInVoice", "Consent", "EncodedVoice", "Reference", "Voice"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value
