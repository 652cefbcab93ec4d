"""Sentences about speech: its progress, how it ended, its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.request import AudioChunk, SpeechResult


def progress(chunk: AudioChunk, seconds: float) -> str:
    """Describe speech that is being made. seconds: of sound so far."""
    parts = [f"{seconds:.1f} s spoken"]
    if chunk.segments > 1:
        parts.insert(0, f"Segment {chunk.segment + 1} of {chunk.segments}")
    if (worked := chunk.elapsed - chunk.queued) > 0:
        parts.append(f"{seconds / worked:.1f} × real time")
    return " · ".join(parts)


def ending(result: SpeechResult) -> str:
    """Describe why speech ended; without a full stop where there is sound."""
    if not result.frames:
        return "Stopped before anything was spoken." if result.stop_reason == "cancelled" else "Nothing was spoken."
    waits = f" · the sound had to wait {result.starved:.1f} s ({result.underruns} ×)" if result.underruns else ""
    return _reason(result) + waits


def figures(result: SpeechResult) -> str:
    """Length, speed and seed of speech."""
    parts = [f"{result.seconds:.1f} s in {result.elapsed:.1f} s"]
    if result.first_audio is not None:
        parts.append(f"first audio after {result.first_audio:.2f} s")
    parts += [f"real-time factor {result.real_time_factor:.2f}", f"seed {result.seed}"]
    return " · ".join(parts)


def _reason(result: SpeechResult) -> str:
    if result.stop_reason == "cancelled":
        return "Stopped; what was spoken is kept"
    if result.stop_reason != "length":
        return "Spoken to the end"
    cut = [str(number) for number, segment in enumerate(result.segments, 1) if segment.stop_reason == "length"]
    if len(result.segments) <= 1 or not cut:
        return "Stopped at its length limit: the end may be missing or repeated"
    return (
        f"Segment {', '.join(cut)} of {len(result.segments)} stopped at its length limit: "
        "words may be missing or repeated"
    )
