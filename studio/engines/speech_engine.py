"""The interface of an engine, wherever it runs.

Implementations: `engine.Engine` in this process, `studio.engines.zero_gpu.ZeroGpuEngine` in forked processes, and
`studio.cluster.engine.ClusterEngine` with replicas on other machines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.engine import EncodedVoice, EngineStatus, SpeakOptions
    from engine.errors import RepriseError
    from engine.families.family import Capabilities
    from engine.messages import UserMessage
    from engine.outputs import AudioChunk, SpeechResult
    from engine.text import GrowingText
    from engine.voice import BuiltInVoice, Consent, Voice


class SpeechStream(Protocol):
    """The interface of `engine.request.Speech`. Iterate it once to speak."""

    @property
    def seed(self) -> int: ...

    @property
    def result(self) -> SpeechResult | None: ...

    @property
    def queue_position(self) -> int | None: ...

    def __iter__(self) -> Iterator[AudioChunk]: ...

    def __next__(self) -> AudioChunk: ...

    def cancel(self) -> None:
        """Stop, from any thread."""

    def close(self) -> None:
        """Cancel, and free the request."""


@dataclass(frozen=True)
class EngineInfo:
    """Properties of a `SpeechEngine`, kept without the engine."""

    name: str
    device: str
    notice: UserMessage
    sample_rate: int
    frame_length: int
    frame_rate: float
    slots: int
    codec_fingerprint: str
    default_options: SpeakOptions
    style_tags: bool
    english_only: bool
    capabilities: Capabilities


class SpeechEngine(Protocol):
    """A loaded model; see `engine.Engine`."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def notice(self) -> UserMessage: ...

    @property
    def sample_rate(self) -> int: ...

    @property
    def frame_length(self) -> int: ...

    @property
    def frame_rate(self) -> float: ...

    @property
    def slots(self) -> int: ...

    @property
    def codec_fingerprint(self) -> str: ...

    @property
    def default_options(self) -> SpeakOptions: ...

    @property
    def style_tags(self) -> bool: ...

    @property
    def english_only(self) -> bool: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def failure(self) -> RepriseError | None:
        """Why the engine cannot speak any more; None while it can."""

    def status(self) -> EngineStatus:
        """Return the current state."""

    def encode_voice(
        self,
        name: str,
        references: Sequence[tuple[bytes | str | Path, str]],
        *,
        language: str = "en",
        description: str = "",
        consent: Consent | None = None,
    ) -> EncodedVoice:
        """Create a voice from clips and their transcripts."""

    def reencode(self, voice: Voice) -> Voice:
        """Encode a voice's clips again with this engine's codec."""

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """Decode a voice's codes."""

    def speak(
        self,
        text: str | GrowingText,
        voice: Voice | Sequence[Voice] | BuiltInVoice | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> SpeechStream:
        """Speak a text as a stream."""

    def growing_text(self) -> GrowingText:
        """Return an empty text that is spoken while it is written."""

    def prepare(self, voice: Voice) -> None:
        """Begin in the background what the first speech in a voice waits for otherwise."""

    def forget(self, voice: Voice) -> None:
        """Drop the cached data of a deleted voice."""

    def close(self) -> None:
        """End all requests."""


class EngineProxy(ABC):
    """Base of engines whose properties are those of another engine."""

    @property
    @abstractmethod
    def _shown(self) -> SpeechEngine | EngineInfo:
        """What the properties are read from."""

    @property
    def name(self) -> str:
        return self._shown.name

    @property
    def device(self) -> str:
        return self._shown.device

    @property
    def notice(self) -> UserMessage:
        return self._shown.notice

    @property
    def sample_rate(self) -> int:
        return self._shown.sample_rate

    @property
    def frame_length(self) -> int:
        return self._shown.frame_length

    @property
    def frame_rate(self) -> float:
        return self._shown.frame_rate

    @property
    def slots(self) -> int:
        return self._shown.slots

    @property
    def codec_fingerprint(self) -> str:
        return self._shown.codec_fingerprint

    @property
    def default_options(self) -> SpeakOptions:
        return self._shown.default_options

    @property
    def style_tags(self) -> bool:
        return self._shown.style_tags

    @property
    def english_only(self) -> bool:
        return self._shown.english_only

    @property
    def capabilities(self) -> Capabilities:
        return self._shown.capabilities
