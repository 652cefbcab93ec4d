"""A speech whose progress, end and use of the model are reported."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import RepriseError
from studio.engines.speech_metrics import FrontEnd, SpeechMetrics, Usage
from studio.speed import SpeedEstimator, TakeTiming

if TYPE_CHECKING:
    from engine.outputs import AudioChunk, SpeechResult
    from studio.engines.speech_engine import SpeechStream


class MeasuredSpeech:
    """A `Speech` that reports its progress to the speed estimator. Garbage collection ends it too.

    voice: id of a saved voice, `model:NAME` for one of the model's own, None if unknown. on_refusal: called once if the
    speech ends with an error before its first audio, since some engines check the text and the queue only then. It must
    not raise. on_spoken: called once with the seconds of audio when it ends or is closed, if there are any; it must
    neither raise nor block. as_written: applied to each chunk; for a text that was changed before it is spoken.
    front_end: the one that it is counted for when it ends or is closed; None if the caller counts it.
    """

    def __init__(
        self,
        speech: SpeechStream,
        speed: SpeedEstimator,
        metrics: SpeechMetrics,
        characters: int,
        sample_rate: int,
        over: Callable[[], None],
    ) -> None:
        self.sample_rate = sample_rate  # Hz
        self.voice: str | None = None
        self.on_refusal: Callable[[], None] | None = None
        self.on_spoken: Callable[[float], object] | None = None
        self.as_written: Callable[[AudioChunk], AudioChunk] = lambda chunk: chunk
        self.front_end: FrontEnd | None = None
        self._speech, self._metrics, self._usage = speech, metrics, Usage(characters)
        self._timing = speed.begin(characters)
        self._over = weakref.finalize(self, _end, speed, self._timing, over)

    @property
    def seed(self) -> int:
        return self._speech.seed

    @property
    def result(self) -> SpeechResult | None:
        return self._speech.result

    @property
    def queue_position(self) -> int | None:
        """Number of turns before its next one; None when it does not wait."""
        return self._speech.queue_position

    def __iter__(self) -> MeasuredSpeech:
        return self

    def __next__(self) -> AudioChunk:
        try:
            chunk = next(self._speech)
        except BaseException as error:
            self._over()
            self._count(failed=not isinstance(error, StopIteration))
            if self.on_refusal is not None and isinstance(error, RepriseError):
                refused, self.on_refusal = self.on_refusal, None
                refused()
            raise
        self.on_refusal = None
        usage = self._usage
        usage.frames += chunk.frames
        usage.seconds += len(chunk.samples) / self.sample_rate
        if usage.first_audio is None and chunk.frames:
            usage.first_audio = chunk.elapsed
            self._timing.started += chunk.queued
        self._timing.spoken = (chunk.start + len(chunk.samples)) / self.sample_rate
        return self.as_written(chunk)

    def cancel(self) -> None:
        """Stop within one frame, from any thread."""
        self._speech.cancel()

    def close(self) -> None:
        """Cancel, and release its resources."""
        try:
            self._speech.close()
        finally:
            self._over()
            self._count()

    def _count(self, *, failed: bool = False) -> None:
        """Count the speech once."""
        spoken, self.on_spoken = self.on_spoken, None
        if spoken is not None and self._timing.spoken:
            spoken(self._timing.spoken)
        front_end, self.front_end = self.front_end, None
        if front_end is not None:
            result = self._speech.result
            gone = not failed and (result is None or result.stop_reason == "cancelled")
            self._metrics.count(front_end, self._usage, gone=gone, failed=failed)


def _end(speed: SpeedEstimator, timing: TakeTiming, over: Callable[[], None]) -> None:
    speed.end(timing)
    over()
