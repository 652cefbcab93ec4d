"""What the page says: errors, and how a take went. Plain text unless a function says that it gives HTML."""

from __future__ import annotations

import logging
from html import escape
from typing import TYPE_CHECKING, Literal

from engine.errors import EngineBusy, EngineClosed, RepriseError

if TYPE_CHECKING:
    from engine.engine import EngineStatus
    from engine.speech import AudioChunk, SpeechResult
    from web.face.translations import Words

log = logging.getLogger(__name__)

# Behind what is usual nothing is said.
_GRAPHS = {"frame": "", "fast": ", recorded in part", "off": ", not recorded"}
OUR_FAULT = "Something went wrong on the server, and it was not your doing. Its log says what."


def sentence_of(error: Exception, words: Words | None = None) -> str:
    """The sentence for a person, in English where `words` are missing or the error has its own.

    Errors that nobody raised on purpose go to the log, with their trace.
    """
    if isinstance(error, EngineBusy) and words:
        return words("speech.busy")
    if isinstance(error, EngineClosed) and words:
        return words("speech.closed")
    if isinstance(error, RepriseError):
        return str(error)
    log.error("an unexpected error", exc_info=error)
    return words("speech.our_fault") if words else OUR_FAULT


def notice(text: str, kind: Literal["good", "bad", "busy"] = "good") -> str:
    """HTML of a line under the button that it belongs to; screen readers speak it."""
    role = "alert" if kind == "bad" else "status"
    return f'<p class="rp-notice rp-{kind}" role="{role}">{escape(text)}</p>'


def running(status: EngineStatus) -> str:
    """How the model runs, and for how many: behind its name, in one phrase."""
    graphs = _GRAPHS.get(status.graphs, f", graphs {status.graphs}")
    busy = f", {status.speaking} of {status.slots} speaking" if status.speaking else ""
    waiting = f" and {status.waiting} waiting" if status.waiting else ""
    return f"{status.precision}{graphs}{busy}{waiting}"


def progress(chunk: AudioChunk, seconds: float, words: Words) -> str:
    """Where a running take stands."""
    parts = [words("speech.spoken", seconds=f"{seconds:.1f}")]
    if chunk.segments > 1:
        parts.insert(0, words("speech.segment", number=chunk.segment + 1, count=chunk.segments))
    if chunk.elapsed > 0:
        parts.append(words("speech.pace", factor=f"{seconds / chunk.elapsed:.1f}"))
    return " · ".join(parts)


def ending(result: SpeechResult, words: Words) -> str:
    """Why a take ended, and its figures."""
    if not result.frames:
        return words("speech.stopped_early") if result.stop_reason == "cancelled" else words("speech.nothing")
    return f"{_why(result, words)} {figures(result, words)}"


def _why(result: SpeechResult, words: Words) -> str:
    if result.stop_reason == "cancelled":
        return words("speech.stopped")
    cut = [number for number, segment in enumerate(result.segments, 1) if segment.stop_reason == "length"]
    if result.stop_reason != "length":
        return words("speech.to_the_end")
    if len(result.segments) <= 1 or not cut:
        return words("speech.cut")
    return words("speech.cut_segments", which=", ".join(map(str, cut)), count=len(result.segments))


def figures(result: SpeechResult, words: Words) -> str:
    """Length, speed and seed of a take."""
    parts = [words("speech.length", seconds=f"{result.seconds:.1f}", elapsed=f"{result.elapsed:.1f}")]
    if result.first_audio is not None:
        parts.append(words("speech.first_audio", seconds=f"{result.first_audio:.2f}"))
    parts.append(words("speech.factor", factor=f"{result.real_time_factor:.2f}"))
    parts.append(words("speech.with_seed", seed=result.seed))
    return " · ".join(parts) + _gaps(result, words)


def _gaps(result: SpeechResult, words: Words) -> str:
    if not result.underruns:
        return ""
    return " · " + words("speech.waits", times=result.underruns, seconds=f"{result.starved:.1f}")
