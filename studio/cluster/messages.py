"""Messages between a ClusterEngine and its replicas."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.info import EngineInfo, EngineStatus
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, SpeechResult, SpokenSegment

if TYPE_CHECKING:
    from engine.text import Segment, Segmentation
    from engine.voice import BuiltInVoice, Voice


@dataclass(frozen=True)
class EngineSettings:
    """Arguments of `Engine.load` for each replica; None for the engine's default."""

    model: str = "bundled"
    device: str = "auto"
    precision: str | None = None
    graphs: str | None = None
    compiled: bool = False
    deterministic: bool = False
    slots: int | None = None


@dataclass(frozen=True)
class DeploymentSettings:
    """Settings of the deployment.

    replicas: minimum and maximum. gpus: per replica; below 1, several share a GPU; None for one if the cluster has any.
    cpus: reserved by Ray per replica.
    """

    engine: EngineSettings
    replicas: tuple[int, int] = (1, 1)
    gpus: float | None = None
    cpus: float = 1.0


@dataclass(frozen=True)
class EngineProperties:
    """Properties of a replica's engine. They are equal for all replicas with the same settings."""

    info: EngineInfo
    settings: DeploymentSettings
    segmentation: Segmentation


@dataclass(frozen=True)
class SpeakRequest:
    """A request to a replica. spoken: segments of `text` that were spoken already; the request continues after them.

    built_in_voice: one of the model's built-in voices, in place of `voices`.
    """

    text: str | tuple[Segment, ...]
    voices: tuple[Voice, ...]
    options: SpeakOptions
    owner: str
    spoken: tuple[SpokenSegment, ...] = ()
    built_in_voice: BuiltInVoice | None = None


@dataclass(frozen=True)
class QueuePosition:
    """The request is queued. position: number of turns before its next one."""

    position: int


@dataclass(frozen=True)
class ReplicaStatus:
    """State of a replica."""

    pid: int
    status: EngineStatus
    voices: tuple[str, ...]  # keys of the voices that it has prefilled
    gpus: tuple[str, ...]  # assigned by Ray


SpeechItem = AudioChunk | SpokenSegment | SpeechResult | QueuePosition | Exception
"""An item in the stream of a speech. An exception ends it; if it were raised, the caller would get one of Ray's."""


def voice_key(voices: Sequence[Voice]) -> str:
    """Return a key for the prefix of these voices in a prompt: equal for equal prefixes; "" without voices."""
    if not voices:
        return ""
    digest = hashlib.blake2b(digest_size=12)
    for voice in voices:
        digest.update(voice.codec_fingerprint.encode())
        for reference in voice.references:
            digest.update(reference.transcript.encode() + reference.codes.tobytes())
    return digest.hexdigest()
