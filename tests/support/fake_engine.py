"""An engine that produces a buzz, with the real interface, and pace, retries and failures set by the test."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from engine.audio import encode_audio, prepare_reference
from engine.errors import InvalidInput, RepriseError
from engine.families.family import Capabilities
from engine.info import EngineInfo, EngineStatus
from engine.messages import UserMessage
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, StopReason, WordTime
from engine.text.tags import word_spans
from engine.voice import Consent, EncodedVoice, Reference, Voice

SAMPLE_RATE = 22_050
FRAME = 1_024
CHUNK = 8  # frames


@dataclass
class Script:
    """Settings of the fake's speech. `pace`: seconds of waiting per second of speech; `retry_at`: a segment to repeat.

    `line`: whether a speech waits until fewer than `slots` earlier ones are running. `tells_words`: whether it gives
    word times; the first word of a segment takes three quarters of it, and the others share the rest.
    `phones`: whether it accepts phones.
    """

    pace: float = 0.0
    seconds_per_character: float = 0.06
    retry_at: int | None = None
    stop_reason: StopReason = "end"
    fail_after: int | None = None  # chunks
    failure: Exception | None = None
    notice: str = "A fake engine that buzzes."
    line: bool = False
    tells_words: bool = False
    phones: bool = False


class FakeSpeech:
    """Chunks of a buzz, with segments divided at full stops."""

    def __init__(
        self, text: str, options: SpeakOptions, script: Script, before: Callable[[], int | None] = lambda: None
    ) -> None:
        self.seed = 7 if options.seed is None else options.seed
        self.result: SpeechResult | None = None
        self.cancelled = self.closed = False
        self._segments = [part.strip() for part in text.split(".") if part.strip()] or [text]
        self._script = script
        self._tells_words = options.word_times
        self._began = time.perf_counter()
        self._before = before
        self._chunks = self._chunked()

    @property
    def queue_position(self) -> int | None:
        return self._before()

    @property
    def over(self) -> bool:
        return self.closed or self.cancelled or self.result is not None

    def __iter__(self) -> Iterator[AudioChunk]:
        return self

    def __next__(self) -> AudioChunk:
        return next(self._chunks)

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True
        self.cancel()

    def _chunked(self) -> Iterator[AudioChunk]:
        while self.queue_position is not None and not self.over:
            time.sleep(0.01)
        start = count = 0
        first = None
        done: list[SegmentResult] = []
        for index, text in enumerate(self._segments):
            attempts = 2 if index == self._script.retry_at else 1
            begin = start
            for attempt in range(attempts):
                start = begin
                frames = max(4, round(len(text) * self._script.seconds_per_character * SAMPLE_RATE / FRAME))
                edges = [*range(0, frames, CHUNK), frames]
                for a, b in pairwise(edges):
                    if self.cancelled:
                        break
                    if count == self._script.fail_after:
                        assert self._script.failure is not None
                        raise self._script.failure
                    time.sleep(self._script.pace * (b - a) * FRAME / SAMPLE_RATE)
                    elapsed = time.perf_counter() - self._began
                    first = elapsed if first is None else first
                    samples = buzz(start, (b - a) * FRAME, 110 * (index + 1) * (1 + attempt))
                    yield AudioChunk(samples, start, b - a, elapsed, index, len(self._segments), text)
                    start += len(samples)
                    count += 1
            if self._tells_words and not self.cancelled:
                words = words_of(text, index, begin / SAMPLE_RATE, (start - begin) / SAMPLE_RATE)
                yield AudioChunk(np.zeros(0, np.float32), start, 0, 0.0, index, len(self._segments), text, words=words)
            reason: StopReason = "cancelled" if self.cancelled else self._script.stop_reason
            done.append(SegmentResult(text, reason, (start - begin) // FRAME, attempts))
            if self.cancelled:
                break
        self.result = SpeechResult(
            stop_reason=done[-1].stop_reason, frames=start // FRAME, seconds=start / SAMPLE_RATE,
            elapsed=time.perf_counter() - self._began, first_audio=first, seed=self.seed,
            segments=tuple(done),
        )  # fmt: skip


def words_of(text: str, segment: int, begin: float, seconds: float) -> tuple[WordTime, ...]:
    """The word times of a segment; the first word takes three quarters of it."""
    spans = word_spans(text)
    edges = np.cumsum([0.0, 0.75, *[0.25 / max(1, len(spans) - 1)] * (len(spans) - 1)]) * seconds + begin
    return tuple(
        WordTime(text[start:end], float(edges[at]), float(edges[at + 1]), segment, start)
        for at, (start, end) in enumerate(spans)
    )


def buzz(start: int, count: int, pitch: float) -> np.ndarray:
    """A tone with overtones and syllable-like amplitude modulation; continuous across calls."""
    time_ = (start + np.arange(count)) / SAMPLE_RATE
    wave = sum(np.sin(2 * np.pi * pitch * k * time_) / k for k in (1, 2, 3, 5))
    return (0.25 * wave * (0.55 + 0.45 * np.sin(2 * np.pi * 3.3 * time_))).astype(np.float32)


class FakeEngine:
    """Prepares clips like the real engine; only codes and speech are fake."""

    name = "fake"
    device = "cpu"
    failure: RepriseError | None = None
    sample_rate = SAMPLE_RATE
    frame_length = FRAME
    slots = 1
    style_tags = False

    def __init__(
        self, script: Script | None = None, prepare: Callable[[bytes | str | Path, str], Reference] | None = None
    ) -> None:
        self.script = script or Script()
        self.notice = UserMessage(self.script.notice)
        self.capabilities = Capabilities(
            english_only=True, word_times=self.script.tells_words, phones=self.script.phones
        )
        self.default_options = SpeakOptions(temperature=0.6)
        self.codec_fingerprint = "fake-1"
        self.speeches: list[FakeSpeech] = []
        self.asked: list[tuple[str, Voice | None, SpeakOptions]] = []
        self.forgotten: list[str] = []  # names of voices
        self.prepared: list[str] = []
        self.owners: list[str] = []
        self._prepare = prepare or self._prepared

    @property
    def info(self) -> EngineInfo:
        """The properties as they are now: tests change them."""
        return EngineInfo(**{each.name: getattr(self, each.name) for each in fields(EngineInfo)})

    def encode_voice(
        self, name: str, references: Sequence[tuple[bytes | str | Path, str]], *,
        language: str = "en", description: str = "", consent: Consent | None = None,
    ) -> EncodedVoice:  # fmt: skip
        made = tuple(self._prepare(clip, transcript) for clip, transcript in references)
        voice = Voice(name, made, self.codec_fingerprint, language, description, consent)
        return EncodedVoice(voice, (UserMessage("A note about the clip."),))

    def reencode(self, voice: Voice) -> Voice:
        return replace(voice, codec_fingerprint=self.codec_fingerprint)

    def reconstruct(self, voice: Voice) -> np.ndarray:
        return buzz(0, sum(reference.codes.shape[1] for reference in voice.references) * FRAME, 220)

    def speak(
        self, text: str, voice: Voice | None = None, options: SpeakOptions | None = None, *, owner: str = ""
    ) -> FakeSpeech:
        options = options or self.default_options
        self.asked.append((text, voice, options))
        self.owners.append(owner)
        earlier = list(self.speeches)

        def before() -> int | None:
            ahead = sum(not each.over for each in earlier) - self.slots
            return ahead if self.script.line and ahead >= 0 else None

        self.speeches.append(FakeSpeech(text, options, self.script, before))
        return self.speeches[-1]

    def prepare(self, voice: Voice) -> None:
        self.prepared.append(voice.name)

    def forget(self, voice: Voice) -> None:
        self.forgotten.append(voice.name)

    def status(self) -> EngineStatus:
        return EngineStatus(0, 0, self.slots, "off", "fp32", 4096, (0, 0), None)

    def close(self) -> None:
        pass

    def _prepared(self, clip: bytes | str | Path, transcript: str) -> Reference:
        if not transcript.strip():
            raise InvalidInput("Type the words that are spoken in the clip; the model needs them to follow the voice.")
        heard = prepare_reference(clip, self.sample_rate)
        return reference(transcript, heard.samples.numpy())


def reference(transcript: str, samples: np.ndarray) -> Reference:
    """A reference with fake codes, one frame per 1,024 samples."""
    frames = max(1, len(samples) // FRAME)
    codes: np.ndarray = (np.arange(10)[:, None] * 7 + np.arange(frames)) % 512
    clip = encode_audio(samples, SAMPLE_RATE, "flac")
    return Reference(transcript, codes, clip, SAMPLE_RATE, len(samples) / SAMPLE_RATE)


def voice(name: str, seconds: float = 2.0) -> Voice:
    """A voice without preparation of a clip."""
    return Voice(name, (reference("Hello there.", buzz(0, int(seconds * SAMPLE_RATE), 120)),), "fake-1")
