"""Parsing of the recorder's value: the clips of a new voice."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import soundfile
from pydantic import ConfigDict, Field

from engine.audio.decode import Recording, decode
from engine.audio.merge import MAX_MERGED_SECONDS
from engine.errors import InvalidInput
from studio.voices.available_voices import is_described
from web.ui.payloads import Payload, UnexpectedPayload, default_if_invalid, parse_payload
from web.uploads.files import MAX_FILE_NAME, uploaded_path

if TYPE_CHECKING:
    from storage import VoiceRecord

MAX_CLIPS = 6  # as in clips.js
PEAKS_PER_SECOND = 50  # as in peaks.js
MAX_WORDS = 10_000  # characters
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class ClipListPayload(Payload):
    """The recorder's value. chosen: index of the selected clip."""

    clips: Annotated[list[Any], Field(max_length=MAX_CLIPS)]
    chosen: Annotated[int | None, default_if_invalid(None)] = None


class ClipPayload(Payload):
    """One clip of the recorder's value; `uploaded_path` parses its path."""

    model_config = ConfigDict(extra="ignore")  # server functions add their arguments

    name: Annotated[str | None, default_if_invalid(None)] = None
    words: Annotated[str | None, default_if_invalid(None)] = None
    start: Seconds | None = None
    end: Seconds | None = None
    seconds: Seconds | None = None


@dataclass(frozen=True)
class ChosenClip:
    """An uploaded file, its selected part, and the transcript of that part.

    start, end: seconds; None: the end of the file. seconds: duration of the file, if the browser knows it.
    """

    path: Path
    name: str
    words: str = ""
    start: float = 0.0
    end: float | None = None
    seconds: float | None = None

    @property
    def whole(self) -> bool:
        return self.start <= 0 and self.end is None

    @property
    def length(self) -> float | None:
        """Duration of the part in seconds, None if unknown."""
        end = self.seconds if self.end is None else self.end
        return None if end is None else end - self.start

    def recording(self) -> Recording:
        """Decode the part. Raises UnusableReference for an unreadable file, InvalidInput for an empty part."""
        recording = decode(self.path)
        rate = recording.sample_rate
        end = None if self.end is None else round(self.end * rate)
        part = recording.samples[round(self.start * rate) : end]
        if not len(part):
            raise InvalidInput("clip.nothing_left")
        return Recording(part, rate)

    def audio(self) -> Path | bytes:
        """Return the audio for the engine: the file if all of it is selected, else a WAV of the part."""
        if self.whole:
            return self.path
        part = self.recording()
        file = io.BytesIO()
        # Float samples: the audio may exceed full scale and must not be clipped here.
        soundfile.write(file, part.samples.numpy(), part.sample_rate, format="WAV", subtype="FLOAT")
        return file.getvalue()


def chosen_clips(value: object, folder: str | Path) -> tuple[ChosenClip, ...]:
    """Parse the clips in the recorder's value, in order. Raises InvalidInput."""
    if not value:
        return ()
    return tuple(chosen_clip(clip, folder) for clip in parse_clip_list(value).clips)


def parse_clip_list(value: object) -> ClipListPayload:
    """Parse the recorder's value. Raises UnexpectedPayload."""
    return parse_payload(ClipListPayload, value)


def chosen_clip(value: object, folder: str | Path) -> ChosenClip:
    """Parse one clip of the recorder's value. Raises InvalidInput."""
    path = uploaded_path(value, folder)
    if path is None:
        raise UnexpectedPayload
    sent = parse_payload(ClipPayload, value)
    start, end, seconds = sent.start or 0.0, sent.end, sent.seconds
    if end is not None and end <= start:
        raise InvalidInput("clip.ends_crossed")
    to_the_end = end is None or (seconds is not None and end >= seconds)
    name, words = (sent.name or path.name)[:MAX_FILE_NAME], (sent.words or "")[:MAX_WORDS].strip()
    return ChosenClip(path, name, words, start, None if to_the_end else end, seconds)


def has_changeable_clips(voice: VoiceRecord) -> bool:
    """Return whether the page can change a voice's clip: that of an owner's cloned voice of one speaker, if stored."""
    return not voice.shared and not is_described(voice) and voice.has_clips and voice.references == 1


def split_by_length(clips: Sequence[ChosenClip]) -> tuple[tuple[ChosenClip, ...], tuple[ChosenClip, ...]]:
    """Return the clips that fit into one voice, and the rest (`leftOut` in clips.js). The first always fits."""
    used, left = list(clips[:1]), list[ChosenClip]()
    seconds = sum(clip.length or 0 for clip in used)
    for clip in clips[1:]:
        fits = seconds + (clip.length or 0) <= MAX_MERGED_SECONDS
        (used if fits else left).append(clip)
        seconds += (clip.length or 0) if fits else 0
    return tuple(used), tuple(left)


def peaks(recording: Recording) -> Sequence[float]:
    """Return the peak of each 20 ms, 0 to 1, for drawing."""
    size = recording.sample_rate // PEAKS_PER_SECOND
    loudness = np.abs(recording.samples.numpy())
    padded = np.pad(loudness, (0, -len(loudness) % size))
    values: list[float] = np.minimum(padded.reshape(-1, size).max(axis=1), 1.0).round(4).tolist()
    return values
