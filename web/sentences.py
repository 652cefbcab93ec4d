"""What the page says: errors, and how a take went. Plain text unless a function says that it gives HTML."""

from __future__ import annotations

import logging
from html import escape
from typing import TYPE_CHECKING, Literal

from engine.errors import RepriseError

if TYPE_CHECKING:
    from engine.engine import EngineStatus
    from engine.speech import AudioChunk, SpeechResult

log = logging.getLogger(__name__)

# Behind what is usual nothing is said.
_GRAPHS = {"frame": "", "fast": ", recorded in part", "off": ", not recorded"}
OUR_FAULT = "Something went wrong on the server, and it was not your doing. Its log says what."


def sentence_of(error: Exception) -> str:
    """The sentence for a person. Errors that nobody raised on purpose go to the log, with their trace."""
    if isinstance(error, RepriseError):
        return str(error)
    log.error("an unexpected error", exc_info=error)
    return OUR_FAULT


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


def progress(chunk: AudioChunk, seconds: float) -> str:
    """Where a running take stands."""
    where = f"Segment {chunk.segment + 1} of {chunk.segments} · " if chunk.segments > 1 else ""
    pace = f" · {seconds / chunk.elapsed:.1f} × real time" if chunk.elapsed > 0 else ""
    return f"{where}{seconds:.1f} s spoken{pace}"


def ending(result: SpeechResult) -> str:
    """Why a take ended, and its figures."""
    if not result.frames:
        return "Stopped before anything was spoken." if result.stop_reason == "cancelled" else "Nothing was spoken."
    return f"{_why(result)} {figures(result)}"


def _why(result: SpeechResult) -> str:
    if result.stop_reason == "cancelled":
        return "Stopped; what was spoken is kept."
    cut = [number for number, segment in enumerate(result.segments, 1) if segment.stop_reason == "length"]
    if result.stop_reason != "length":
        return "Spoken to the end."
    if len(result.segments) <= 1 or not cut:
        return "Stopped at its length limit: the end may be missing or repeated."
    which = ", ".join(map(str, cut))
    of = len(result.segments)
    return f"Segment {which} of {of} stopped at its length limit: words may be missing or repeated."


def figures(result: SpeechResult) -> str:
    """Length, speed and seed of a take."""
    first = "" if result.first_audio is None else f"first audio after {result.first_audio:.2f} s, "
    return (
        f"{result.seconds:.1f} s in {result.elapsed:.1f} s, {first}"
        f"real-time factor {result.real_time_factor:.2f}, seed {result.seed}.{_gaps(result)}"
    )


def _gaps(result: SpeechResult) -> str:
    if not result.underruns:
        return ""
    times = "once" if result.underruns == 1 else f"{result.underruns} times"
    return f" The sound had to wait {times}, {result.starved:.1f} s in all."
