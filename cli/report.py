"""Messages about speech: its progress, how it ended, its statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.outputs import AudioChunk, SpeechResult, StopReason

# For a take of one segment, and for some segments of a longer take.
_FAULTS: dict[StopReason, tuple[str, str]] = {
    "length": (
        "Cut off because it did not end: the end may be missing or repeated",
        "was cut off because it did not end: words may be missing or repeated",
    ),
    "short": (
        "Too short for its words, some of which are probably missing: compare the voice's clip with its transcript",
        "is too short for its words, some of which are probably missing",
    ),
}


def progress(chunk: AudioChunk, seconds: float) -> str:
    """Describe speech in progress. seconds: of audio so far."""
    parts = [f"{seconds:.1f} s spoken"]
    if chunk.segments > 1:
        parts.insert(0, f"Segment {chunk.segment + 1} of {chunk.segments}")
    if (worked := chunk.elapsed - chunk.queued) > 0:
        parts.append(f"{seconds / worked:.1f} × real time")
    return " · ".join(parts)


def ending(result: SpeechResult) -> str:
    """Describe why speech ended; without a full stop if there is audio."""
    if not result.frames:
        return "Stopped before anything was spoken." if result.stop_reason == "cancelled" else "Nothing was spoken."
    return _reason(result)


def figures(result: SpeechResult) -> str:
    """Return length, speed and seed of speech."""
    parts = [f"{result.seconds:.1f} s in {result.elapsed:.1f} s"]
    if result.first_audio is not None:
        parts.append(f"first audio after {result.first_audio:.2f} s")
    parts += [f"real-time factor {result.real_time_factor:.2f}", f"seed {result.seed}"]
    return " · ".join(parts)


def _reason(result: SpeechResult) -> str:
    if result.stop_reason == "cancelled":
        return "Stopped; what was spoken is kept"
    return "; ".join(fault for reason in _FAULTS if (fault := _fault(result, reason))) or "Spoken to the end"


def _fault(result: SpeechResult, reason: StopReason) -> str:
    """Return the sentence about the segments that ended for this reason; "" if none did."""
    which = [str(number) for number, segment in enumerate(result.segments, 1) if segment.stop_reason == reason]
    whole, some = _FAULTS[reason]
    if len(result.segments) > 1 and which:
        return f"Segment {', '.join(which)} of {len(result.segments)} {some}"
    return whole if result.stop_reason == reason else ""
