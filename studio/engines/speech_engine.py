"""The interface of an engine, wherever it runs.

Implementations: `engine.Engine` in this process, `studio.engines.zero_gpu.ZeroGpuEngine` in forked processes, and
`studio.cluster.engine.ClusterEngine` with replicas on other machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.errors import RepriseError
    from engine.info import EngineInfo, EngineStatus
    from engine.options import SpeakOptions
    from engine.outputs import AudioChunk, SpeechResult
    from engine.text import GrowingText
    from engine.voice import BuiltInVoice, Consent, EncodedVoice, Voice


class SpeechStream(Protocol):
    """The interface of `engine.request.speech.Speech`. Iterate it once to speak."""

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


class SpeechEngine(Protocol):
    """A loaded model; see `engine.Engine`."""

    @property
    def info(self) -> EngineInfo: ...

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
