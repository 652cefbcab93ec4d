"""Several clips of one speaker as one clip. A prompt's references are its speakers, so that a second clip beside the
first would be heard as somebody else; models are taught with references of several utterances, one behind the other."""

from collections.abc import Sequence

import numpy as np

from engine.audio.decode import Source
from engine.audio.encode import wav_bytes
from engine.audio.reference import LONGEST_USED, prepare_reference

# Seconds that clips may have together: what is used of one clip, less the pauses that preparing leaves between them.
LONGEST_TOGETHER = LONGEST_USED - 2.0


def join_clips(sources: Sequence[Source], sample_rate: int) -> bytes:
    """Clips one behind the other, each trimmed and at the same level, parted by a short pause: a WAV file.

    Args:
        sources: one or more, as for `prepare_reference`.
        sample_rate: Hz, of the result.
    Raises UnusableReference for the first clip that cannot be cloned from.
    """
    prepared = [prepare_reference(source, sample_rate).samples.numpy() for source in sources]
    return wav_bytes(np.concatenate(prepared), sample_rate)


def join_transcripts(transcripts: Sequence[str]) -> str:
    """The words of joined clips. Where one clip ends, a sentence does: its pause is heard as one."""
    return " ".join(map(_sentence, transcripts))


def _sentence(words: str) -> str:
    words = words.strip()
    return words if not words or words[-1] in '.!?…。！？"”»' else f"{words}."
