"""The engine on a ZeroGPU Space, which allocates a GPU for each call and runs the call in a forked process.

The weights are loaded before the app is launched: the package `spaces` keeps them in memory and moves them to the GPU
of a forked process. The engine is started in that process, since its threads would not survive the fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import EngineBusy, EngineClosed, EngineFailed, InvalidInput, RepriseError, first_line
from engine.outputs import AudioChunk, SpeechResult, SpokenSegment
from studio.engines.arrived_audio import SECONDS_PER_CHARACTER, ArrivedAudio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.engine import Engine
    from engine.info import EngineStatus
    from engine.options import SpeakOptions
    from engine.text import GrowingText, Segment
    from engine.voice import BuiltInVoice, Consent, EncodedVoice, Voice

Result = TypeVar("Result")

START_SECONDS = 10.0  # to start the engine and capture its graphs in a new process
REAL_TIME_FACTOR = 1.0  # an upper bound for the GPUs of ZeroGPU
CALL_SECONDS = 60  # limit of one call; a longer text takes several calls, one after the other
ENCODE_SECONDS = 20


@dataclass(frozen=True)
class Call:
    """A GPU call. It speaks the segments after `spoken`."""

    segments: tuple[Segment, ...]
    voices: tuple[Voice, ...]
    options: SpeakOptions
    spoken: tuple[SpokenSegment, ...] = ()
    built_in_voice: BuiltInVoice | None = None


def is_zero_gpu() -> bool:
    """Return whether this process runs on a ZeroGPU Space and the package `spaces` is installed."""
    wanted = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    return wanted and find_spec("spaces") is not None


def prepare() -> None:
    """Import `spaces` on a ZeroGPU Space. It has to be imported before anything uses CUDA."""
    if is_zero_gpu():
        import spaces  # noqa: F401


def duration(call: Call) -> int:
    """Return the seconds of GPU time to request. They count against the visitor's quota while the call runs."""
    characters = sum(len(segment.text) for segment in call.segments[len(call.spoken) :])
    return round(min(CALL_SECONDS, START_SECONDS + characters * SECONDS_PER_CHARACTER * REAL_TIME_FACTOR))


def parts(segments: Sequence[Segment]) -> list[int]:
    """Split segments into calls: as many as fit into CALL_SECONDS, at least one. Returns the end index of each call."""
    ends, characters = [], 0
    room = (CALL_SECONDS - START_SECONDS) / SECONDS_PER_CHARACTER / REAL_TIME_FACTOR
    for index, segment in enumerate(segments):
        if characters and characters + len(segment.text) > room:
            ends.append(index)
            characters = 0
        characters += len(segment.text)
    return [*ends, len(segments)]


class ZeroGpuEngine:
    """The interface of `Engine` over GPUs that are allocated per call.

    It has one slot in each forked process; `spaces` queues calls until a GPU is free.
    """

    def __init__(self, engine: Engine) -> None:
        """engine: loaded but not started (`Engine.load(…, start=False)`); forked processes start it."""
        import spaces

        self.info = replace(engine.info, slots=1)
        self._engine = engine
        self._closed = False

        def speak(call: Call) -> Iterator[AudioChunk | SpokenSegment | SpeechResult | RepriseError]:
            try:
                engine.start()
                voices = call.built_in_voice or list(call.voices) or None
                speech = engine.speak(call.segments, voices, call.options, spoken=call.spoken)
                reported = len(call.spoken)
                for chunk in speech:
                    yield from speech.spoken[reported:]
                    reported = len(speech.spoken)
                    yield chunk
                yield from speech.spoken[reported:]
                assert speech.result is not None
                yield speech.result
            except RepriseError as error:
                yield error

        def work(method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            try:
                engine.start()
                return getattr(engine, method)(*arguments, **named)
            except RepriseError as error:
                return error

        self._speak: Callable[[Call], Iterator[Any]] = spaces.GPU(duration=duration)(speak)
        self._work: Callable[..., Any] = spaces.GPU(duration=ENCODE_SECONDS)(work)

    @property
    def failure(self) -> EngineClosed | None:
        """The error of a closed engine; each call has a process of its own, and none stops the engine."""
        return EngineClosed() if self._closed else None

    def status(self) -> EngineStatus:
        """Return the state of this process. It has no requests, since speech is generated in forked processes."""
        from engine.engine import POSITIONS
        from engine.info import EngineStatus

        return EngineStatus(0, 0, self.info.slots, "off", self._engine.precision, POSITIONS, (0, 0), None)

    def encode_voice(
        self,
        name: str,
        references: Sequence[tuple[bytes | str | Path, str]],
        *,
        language: str = "en",
        description: str = "",
        consent: Consent | None = None,
    ) -> EncodedVoice:
        """See `Engine.encode_voice`."""
        named = {"language": language, "description": description, "consent": consent}
        made: EncodedVoice = self._call("encode_voice", name, references, **named)
        return made

    def reencode(self, voice: Voice) -> Voice:
        """See `Engine.reencode`."""
        made: Voice = self._call("reencode", voice)
        return made

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """See `Engine.reconstruct`."""
        samples: NDArray[np.float32] = self._call("reconstruct", voice)
        return samples

    def speak(
        self,
        text: str | GrowingText,
        voice: Voice | Sequence[Voice] | BuiltInVoice | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> ZeroGpuSpeech:
        """See `Engine.speak`. `spaces` does its own queueing. A growing text is refused, since it would hold a GPU."""
        from engine.text import GrowingText
        from engine.voice import BuiltInVoice, voices_of

        if self._closed:
            raise EngineClosed()
        if isinstance(text, GrowingText):
            raise InvalidInput("spaces.no_growing")
        options, voices = (options or self.info.default_options).seeded(), voices_of(voice)
        own = voice if isinstance(voice, BuiltInVoice) else None
        segments = tuple(self._engine.segments(text, sum(len(each.references) for each in voices)))
        return ZeroGpuSpeech(self._speak, Call(segments, voices, options, built_in_voice=own), self.info.sample_rate)

    def growing_text(self) -> GrowingText:
        """Raise InvalidInput."""
        raise InvalidInput("spaces.no_growing")

    def prepare(self, voice: Voice) -> None:
        """Do nothing: caches end with the forked processes."""

    def forget(self, voice: Voice) -> None:
        """Do nothing: caches end with the forked processes."""

    def close(self) -> None:
        """Refuse further calls."""
        self._closed = True

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        if self._closed:
            raise EngineClosed()
        answer = _translated(lambda: self._work(method, arguments, named))
        if isinstance(answer, RepriseError):
            raise answer
        return answer


class ZeroGpuSpeech:
    """The interface of `engine.request.speech.Speech` over consecutive GPU calls."""

    def __init__(self, speak: Callable[[Call], Iterator[Any]], call: Call, sample_rate: int) -> None:
        """sample_rate: Hz of the chunks."""
        assert call.options.seed is not None, "the engine has chosen one"
        self.seed, self.queue_position = call.options.seed, None
        self.result: SpeechResult | None = None
        self._call, self._start = call, speak
        self._ends = parts(call.segments)
        self._spoken: list[SpokenSegment] = []
        self._last: SpeechResult | None = None  # of all calls so far
        self._items: Iterator[Any] | None = None
        self._cancelled = False
        self._sample_rate = sample_rate
        self._arrived = ArrivedAudio()

    def __iter__(self) -> ZeroGpuSpeech:
        return self

    def __next__(self) -> AudioChunk:
        while not self._cancelled:
            if self._items is None:
                if not self._ends:
                    self.result = self.result or self._last
                    raise StopIteration
                end = self._ends.pop(0)
                call = replace(self._call, segments=self._call.segments[:end], spoken=tuple(self._spoken))
                self._items = _translated(lambda call=call: self._start(call))  # type: ignore[misc]
            items = self._items
            item = _translated(lambda items=items: next(items, None))  # type: ignore[misc]
            if isinstance(item, AudioChunk):
                if self._arrived.add(item):
                    return replace(item, segments=len(self._call.segments))
            elif isinstance(item, SpokenSegment):
                self._spoken.append(item)
            elif isinstance(item, SpeechResult):
                self._last = item
            elif isinstance(item, RepriseError):
                self._ends = []
                raise item
            else:
                self._items = None
        self._end()
        raise StopIteration

    def cancel(self) -> None:
        """Stop at the next chunk, from any thread."""
        self._cancelled = True

    def close(self) -> None:
        """Cancel, and release the GPU."""
        self.cancel()
        self._end()

    def _end(self) -> None:
        items, self._items = self._items, None
        if items is not None and hasattr(items, "close"):
            items.close()
        if self.result is None:
            self.result = self._arrived.result("cancelled", self.seed, self._sample_rate, self._spoken)


def _translated(work: Callable[[], Result]) -> Result:
    """Call `work`. Raises EngineBusy with the message of `spaces` if it refuses, as for a visitor without quota."""
    try:
        return work()
    except (RepriseError, StopIteration):
        raise
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            raise EngineBusy("spaces.refused", why=str(message).strip()) from error  # converts HTML messages to text
        raise EngineFailed("spaces.failed", why=first_line(error)) from error
