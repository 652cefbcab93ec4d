"""What a ClusterEngine and its replicas send each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.engine import EngineStatus, SpeakOptions
from engine.families.family import Abilities
from engine.request import AudioChunk, SpeechResult, SpokenSegment
from engine.sentences import Sentence

if TYPE_CHECKING:
    from engine.text import Segment, Segmentation
    from engine.voice import OwnVoice, Voice


@dataclass(frozen=True)
class EngineSettings:
    """How each replica loads its engine, as for `Engine.load`; None: the engine's default."""

    model: str = "bundled"
    device: str = "auto"
    precision: str | None = None
    graphs: str | None = None
    compiled: bool = False
    deterministic: bool = False
    slots: int | None = None


@dataclass(frozen=True)
class DeploymentSettings:
    """What is deployed.

    replicas: the least and the most. gpus: of each replica; below 1, several share a GPU; None: one where there is any.
    cpus: that Ray reserves for each replica.
    """

    engine: EngineSettings
    replicas: tuple[int, int] = (1, 1)
    gpus: float | None = None
    cpus: float = 1.0


@dataclass(frozen=True)
class EngineProperties:
    """The properties of a replica's engine, which are those of all replicas with the same settings."""

    settings: DeploymentSettings
    name: str
    device: str
    notice: Sentence
    sample_rate: int
    frame_length: int
    frame_rate: float
    slots: int
    codec_fingerprint: str
    default_options: SpeakOptions
    style_tags: bool
    english_only: bool
    abilities: Abilities
    segmentation: Segmentation


@dataclass(frozen=True)
class SpeakRequest:
    """What a replica is to speak. spoken: the segments that another replica has spoken. own_voice: of the model's own,
    in place of voices."""

    text: str | tuple[Segment, ...]
    voices: tuple[Voice, ...]
    options: SpeakOptions
    owner: str
    spoken: tuple[SpokenSegment, ...] = ()
    own_voice: OwnVoice | None = None


@dataclass(frozen=True)
class Waiting:
    """The request waits. place: number of turns before its next one."""

    place: int


@dataclass(frozen=True)
class ReplicaStatus:
    """A replica's engine, and the seconds of audio that its waiting requests are expected to have."""

    replica: str
    node: str
    pid: int
    status: EngineStatus
    queued_seconds: float
    voices: tuple[str, ...]  # keys of voices that it has read
    gpus: tuple[str, ...]  # that Ray has given it


SpeechItem = AudioChunk | SpokenSegment | SpeechResult | Waiting | Exception
"""Of the stream of a speech. An exception ends it: one that is raised would reach the caller as Ray's."""


def voice_key(voices: Sequence[Voice]) -> str:
    """A key of what a prompt has of these voices: equal for equal prefixes; "" without voices."""
    if not voices:
        return ""
    digest = hashlib.blake2b(digest_size=12)
    for voice in voices:
        digest.update(voice.codec_fingerprint.encode())
        for reference in voice.references:
            digest.update(reference.transcript.encode() + reference.codes.tobytes())
    return digest.hexdigest()
