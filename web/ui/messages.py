"""Messages of the page: errors, progress and outcome of takes. Plain text unless stated otherwise."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal

from studio.error_sentences import error_sentence

if TYPE_CHECKING:
    from engine.request import AudioChunk, SpeechResult, StopReason
    from web.ui.i18n import Words


def error_message(error: Exception, words: Words) -> str:
    """Return the sentence for an error. Unexpected errors are logged."""
    return words.write(error_sentence(error))


def notice(text: str, kind: Literal["good", "bad", "busy"] = "good") -> str:
    """Return HTML of a notice, which screen readers announce."""
    role = "alert" if kind == "bad" else "status"
    return f'<p class="rp-notice rp-{kind}" role="{role}">{escape(text)}</p>'


def progress(chunk: AudioChunk, seconds: float, words: Words) -> str:
    """Return the progress of a running take."""
    parts = [words("speech.spoken", time=words.length(seconds))]
    if chunk.segments > 1:
        parts.insert(0, words("speech.segment", number=chunk.segment + 1, count=chunk.segments))
    if (worked := chunk.elapsed - chunk.queued) > 0:
        parts.append(words("speech.pace", factor=words.number(seconds / worked, 1)))
    return " · ".join(parts)


def ending(result: SpeechResult, words: Words) -> str:
    """Return why a take ended, without a full stop, because more text may follow."""
    if not result.frames:
        return words("speech.stopped_early") if result.stop_reason == "cancelled" else words("speech.nothing")
    return _why(result, words)


def _why(result: SpeechResult, words: Words) -> str:
    if result.stop_reason == "cancelled":
        return words("speech.stopped")
    faults = (_fault(result, "length", "speech.cut", words), _fault(result, "short", "speech.short", words))
    return "; ".join(filter(None, faults)) or words("speech.to_the_end")


def _fault(result: SpeechResult, reason: StopReason, key: str, words: Words) -> str:
    """Return the sentence about segments that ended for this reason; "" if there are none."""
    which = [str(number) for number, segment in enumerate(result.segments, 1) if segment.stop_reason == reason]
    if len(result.segments) > 1 and which:
        return words(f"{key}_segments", which=", ".join(which), count=len(result.segments))
    return words(key) if result.stop_reason == reason else ""
