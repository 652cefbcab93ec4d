"""Clips of a voice that is being made: what the server makes of the recorder's value."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import soundfile
from pydantic import ConfigDict, Field

from engine.audio.decode import Recording, decode
from engine.audio.merge import MAX_MERGED_SECONDS
from engine.errors import InvalidInput
from web.ui.events import OutOfStep, Sent, otherwise, parsed
from web.uploads import MAX_FILE_NAME, uploaded_path

MOST_CLIPS = 6  # as clips.js has it
PEAKS_PER_SECOND = 50  # as peaks.js has it
MAX_WORDS = 10_000  # characters
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class SentClips(Sent):
    """The recorder's value. chosen: the one that is shown."""

    clips: Annotated[list[Any], Field(max_length=MOST_CLIPS)]
    chosen: Annotated[int | None, otherwise(None)] = None


class SentClip(Sent):
    """One clip of it; where it lies is `uploaded_path`'s."""

    model_config = ConfigDict(extra="ignore")  # what is asked of the server about a clip comes along with it

    name: Annotated[str | None, otherwise(None)] = None
    words: Annotated[str | None, otherwise(None)] = None
    start: Seconds | None = None
    end: Seconds | None = None
    seconds: Seconds | None = None


@dataclass(frozen=True)
class ChosenClip:
    """An uploaded file, which part of it is meant, and the words that are spoken in that part.

    start, end: seconds; an end of None is that of the file. seconds: of the file, as far as the browser knows.
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
        """Seconds of the part; None where nobody knows."""
        end = self.seconds if self.end is None else self.end
        return None if end is None else end - self.start

    def recording(self) -> Recording:
        """The part, decoded. Raises UnusableReference when the file cannot be read, InvalidInput when nothing of it
        is left."""
        recording = decode(self.path)
        rate = recording.sample_rate
        end = None if self.end is None else round(self.end * rate)
        part = recording.samples[round(self.start * rate) : end]
        if not len(part):
            raise InvalidInput("Nothing is left of the clip: move its ends apart.")
        return Recording(part, rate)

    def audio(self) -> Path | bytes:
        """What the engine prepares: the file itself where all of it is meant, else a WAV of the part."""
        if self.whole:
            return self.path
        part = self.recording()
        file = io.BytesIO()
        # As floats: clips may be louder than full scale, and nothing of them is to be lost here.
        soundfile.write(file, part.samples.numpy(), part.sample_rate, format="WAV", subtype="FLOAT")
        return file.getvalue()

    def forget(self, folder: Path) -> None:
        """Deletes the file, and the folder that it was uploaded into. folder: of all uploads."""
        self.path.unlink(missing_ok=True)
        if self.path.parent != folder.resolve():
            with suppress(OSError):  # somebody uploaded the same
                self.path.parent.rmdir()


def chosen_clips(value: object, folder: str | Path) -> tuple[ChosenClip, ...]:
    """The clips behind the value of `clip_input`, in their order; none where there is none. Raises InvalidInput."""
    if not value:
        return ()
    return tuple(chosen_clip(clip, folder) for clip in sent_clips(value).clips)


def sent_clips(value: object) -> SentClips:
    """The recorder's value, which has to be one. Raises InvalidInput."""
    try:
        return parsed(SentClips, value)
    except OutOfStep:
        raise InvalidInput("Those are not clips that were made here. Reload the page.") from None


def chosen_clip(value: object, folder: str | Path) -> ChosenClip:
    """One clip of such a value. Raises InvalidInput."""
    path = uploaded_path(value, folder)
    if path is None:
        raise InvalidInput("That is not a clip that was made here.")
    sent = parsed(SentClip, value)
    start, end, seconds = sent.start or 0.0, sent.end, sent.seconds
    if end is not None and end <= start:
        raise InvalidInput("The clip ends before it starts: move its ends apart.")
    to_the_end = end is None or (seconds is not None and end >= seconds)
    name, words = (sent.name or path.name)[:MAX_FILE_NAME], (sent.words or "")[:MAX_WORDS].strip()
    return ChosenClip(path, name, words, start, None if to_the_end else end, seconds)


def fitting(clips: Sequence[ChosenClip]) -> tuple[tuple[ChosenClip, ...], tuple[ChosenClip, ...]]:
    """Those of several clips that fit into one voice, and those that are left out, as `Clips.leftOut` has it. The first
    always fits."""
    used, left = list(clips[:1]), list[ChosenClip]()
    seconds = sum(clip.length or 0 for clip in used)
    for clip in clips[1:]:
        fits = seconds + (clip.length or 0) <= MAX_MERGED_SECONDS
        (used if fits else left).append(clip)
        seconds += (clip.length or 0) if fits else 0
    return tuple(used), tuple(left)


def peaks(recording: Recording) -> Sequence[float]:
    """The loudest of every fiftieth of a second, 0 to 1, for drawing."""
    size = recording.sample_rate // PEAKS_PER_SECOND
    loudness = np.abs(recording.samples.numpy())
    padded = np.pad(loudness, (0, -len(loudness) % size))
    values: list[float] = np.minimum(padded.reshape(-1, size).max(axis=1), 1.0).round(4).tolist()
    return values
