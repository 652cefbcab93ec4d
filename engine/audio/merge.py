"""Merging several clips of one speaker into one reference clip.

Each reference of a prompt is a separate speaker, so several clips of one speaker must be one reference. Models are
trained with references of several consecutive utterances.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from engine.audio.clip_length import LONGEST_USED
from engine.audio.decode import Source
from engine.audio.output.encode import wav_bytes
from engine.audio.reference import Clip, prepare_reference, transcript_for

AnySource = TypeVar("AnySource", bound=Source)

# Maximum total duration of the clips: that of one reference, minus the pauses between the prepared clips.
MAX_MERGED_SECONDS = LONGEST_USED - 2.0


def merge_references(references: Sequence[tuple[AnySource, str]], sample_rate: int) -> tuple[AnySource | bytes, str]:
    """Merge clips of one speaker, each with its transcript, into one; a single one stays as it is.

    The merged clip is a WAV file of the clips, each trimmed and at the same level, with short pauses between them. A
    clip longer than 30 s is cut, and its transcript too. Clips after the first `MAX_MERGED_SECONDS` are left out. If
    any of the others has no transcript, the merged transcript is empty.

    Args:
        references: one or more. sample_rate: sampling rate of a merged clip in Hz.
    Raises UnusableReference for the first unusable clip of several.
    """
    if len(references) == 1:
        return references[0]
    sources, transcripts = zip(*references, strict=True)
    clips = _used_clips(sources, sample_rate)
    said = [transcript_for(clip, words)[0] for clip, words in zip(clips, transcripts[: len(clips)], strict=True)]
    merged = wav_bytes(np.concatenate([clip.samples.numpy() for clip in clips]), clips[0].sample_rate)
    return merged, merge_transcripts(said) if all(said) else ""


def _used_clips(sources: Sequence[Source], sample_rate: int) -> list[Clip]:
    """Prepare clips, up to the one with which their total exceeds `MAX_MERGED_SECONDS`."""
    clips: list[Clip] = []
    seconds = 0.0
    for source in sources:
        clip = prepare_reference(source, sample_rate)
        clips.append(clip)
        seconds += clip.used[1] - clip.used[0]
        if seconds > MAX_MERGED_SECONDS:
            break
    return clips


def merge_transcripts(transcripts: Sequence[str]) -> str:
    """Join the transcripts of merged clips. Each is ended like a sentence, because a pause follows it."""
    return " ".join(map(_sentence, transcripts))


def _sentence(words: str) -> str:
    words = words.strip()
    return words if not words or words[-1] in '.!?…。！？"”»' else f"{words}."
