"""Messages of the page: errors, progress and outcome of takes. Plain text unless stated otherwise."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal

from studio.user_messages import user_message

if TYPE_CHECKING:
    from engine.outputs import AudioChunk, SpeechResult, StopReason
    from web.ui.i18n import Texts


def error_message(error: Exception, texts: Texts) -> str:
    """Return the message for an error. Unexpected errors are logged."""
    return texts.write(user_message(error))


def notice(text: str, kind: Literal["good", "bad", "busy"] = "good") -> str:
    """Return HTML of a notice, which screen readers announce."""
    role = "alert" if kind == "bad" else "status"
    return f'<p class="rp-notice rp-{kind}" role="{role}">{escape(text)}</p>'


def progress(chunk: AudioChunk, seconds: float, texts: Texts) -> str:
    """Return the progress of a running take."""
    parts = [texts("speech.spoken", time=texts.length(seconds))]
    if chunk.segments > 1:
        parts.insert(0, texts("speech.segment", number=chunk.segment + 1, count=chunk.segments))
    if (worked := chunk.elapsed - chunk.queued) > 0:
        parts.append(texts("speech.pace", factor=texts.number(seconds / worked, 1)))
    return " · ".join(parts)


def ending(result: SpeechResult, texts: Texts) -> str:
    """Return why a take ended, without a full stop, because more text may follow."""
    if not result.frames:
        return texts("speech.stopped_early") if result.stop_reason == "cancelled" else texts("speech.nothing")
    return _why(result, texts)


def _why(result: SpeechResult, texts: Texts) -> str:
    if result.stop_reason == "cancelled":
        return texts("speech.stopped")
    cut, short = _fault(result, "length", "speech.cut", texts), _fault(result, "short", "speech.short", texts)
    return texts("speech.both", cut=cut, short=short) if cut and short else cut or short or texts("speech.to_the_end")


def _fault(result: SpeechResult, reason: StopReason, key: str, texts: Texts) -> str:
    """Return the message about segments that ended for this reason; "" if there are none."""
    which = [str(number) for number, segment in enumerate(result.segments, 1) if segment.stop_reason == reason]
    if len(result.segments) > 1 and which:
        return texts(f"{key}_segments", which=which, count=len(result.segments))
    return texts(key) if result.stop_reason == reason else ""
