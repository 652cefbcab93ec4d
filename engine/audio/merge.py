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
from engine.audio.reference import prepare_reference

AnySource = TypeVar("AnySource", bound=Source)

# Maximum total duration of the clips: that of one reference, minus the pauses between the prepared clips.
MAX_MERGED_SECONDS = LONGEST_USED - 2.0


def merge_references(references: Sequence[tuple[AnySource, str]], sample_rate: int) -> tuple[AnySource | bytes, str]:
    """Merge clips of one speaker, each with its transcript, into one; a single one stays as it is.

    If any clip has no transcript, the merged transcript is empty.

    Args:
        references: one or more. sample_rate: sampling rate of a merged clip in Hz.
    Raises UnusableReference for the first unusable clip of several.
    """
    if len(references) == 1:
        return references[0]
    clips, transcripts = zip(*references, strict=True)
    return merge_clips(clips, sample_rate), merge_transcripts(transcripts) if all(transcripts) else ""


def merge_clips(sources: Sequence[Source], sample_rate: int) -> bytes:
    """Concatenate clips into a WAV file, each trimmed and at the same level, with short pauses between them.

    Args:
        sources: one or more, as for `prepare_reference`.
        sample_rate: sampling rate of the result in Hz.
    Raises UnusableReference for the first unusable clip.
    """
    prepared = [prepare_reference(source, sample_rate).samples.numpy() for source in sources]
    return wav_bytes(np.concatenate(prepared), sample_rate)


def merge_transcripts(transcripts: Sequence[str]) -> str:
    """Join the transcripts of merged clips. Each is ended like a sentence, because a pause follows it."""
    return " ".join(map(_sentence, transcripts))


def _sentence(words: str) -> str:
    words = words.strip()
    return words if not words or words[-1] in '.!?…。！？"”»' else f"{words}."
