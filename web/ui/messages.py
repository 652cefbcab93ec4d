"""Messages of the page: errors, and the outcome of takes. Plain text unless a function returns HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal

from engine.errors import EngineBusy, EngineClosed, RepriseError
from studio.error_text import error_text
from studio.voice_archive import InvalidVoiceArchive
from web.limits.budgets import PoolFull
from web.ui.payloads import UnexpectedPayload

if TYPE_CHECKING:
    from engine.request import AudioChunk, SpeechResult, StopReason
    from web.ui.i18n import Words

_DECIMAL_COMMA = ("de", "es", "fr")
_TRANSLATED: dict[type[Exception], str] = {
    EngineBusy: "speech.busy",
    EngineClosed: "speech.closed",
    UnexpectedPayload: "speech.out_of_step",
    PoolFull: "budget.files",
}


def error_message(error: Exception, words: Words | None = None) -> str:
    """The sentence for an error, in English where `words` are missing or the error has only its own."""
    if words is None:
        return error_text(error)
    for kind, key in _TRANSLATED.items():
        if isinstance(error, kind):
            return words(key)
    if isinstance(error, InvalidVoiceArchive):
        return words(f"library.zip_{error.reason}", name=error.name, most=error.most)
    return error_text(error) if isinstance(error, RepriseError) else _unexpected(error, words)


def _unexpected(error: Exception, words: Words) -> str:
    error_text(error)  # logs it
    return words("speech.our_fault")


def notice(text: str, kind: Literal["good", "bad", "busy"] = "good") -> str:
    """HTML of a notice beside a button; screen readers announce it."""
    role = "alert" if kind == "bad" else "status"
    return f'<p class="rp-notice rp-{kind}" role="{role}">{escape(text)}</p>'


def number(value: float, digits: int, words: Words) -> str:
    """A number with the language's decimal separator."""
    text = f"{value:.{digits}f}"
    return text.replace(".", ",") if words.language in _DECIMAL_COMMA else text


def progress(chunk: AudioChunk, seconds: float, words: Words) -> str:
    """The progress of a running take."""
    parts = [words("speech.spoken", seconds=number(seconds, 1, words))]
    if chunk.segments > 1:
        parts.insert(0, words("speech.segment", number=chunk.segment + 1, count=chunk.segments))
    if (worked := chunk.elapsed - chunk.queued) > 0:
        parts.append(words("speech.pace", factor=number(seconds / worked, 1, words)))
    return " · ".join(parts)


def ending(result: SpeechResult, words: Words) -> str:
    """Why a take ended; without a full stop, because more may follow."""
    if not result.frames:
        return words("speech.stopped_early") if result.stop_reason == "cancelled" else words("speech.nothing")
    return _why(result, words)


def _why(result: SpeechResult, words: Words) -> str:
    if result.stop_reason == "cancelled":
        return words("speech.stopped")
    faults = (_fault(result, "length", "speech.cut", words), _fault(result, "short", "speech.short", words))
    return "; ".join(filter(None, faults)) or words("speech.to_the_end")


def _fault(result: SpeechResult, reason: StopReason, key: str, words: Words) -> str:
    """The sentence about the segments that ended for this reason; "" where none did."""
    which = [str(number) for number, segment in enumerate(result.segments, 1) if segment.stop_reason == reason]
    if len(result.segments) > 1 and which:
        return words(f"{key}_segments", which=", ".join(which), count=len(result.segments))
    return words(key) if result.stop_reason == reason else ""


def figures(result: SpeechResult, words: Words) -> str:
    """Length, speed and seed of a take."""
    seconds, elapsed = (number(value, 1, words) for value in (result.seconds, result.elapsed))
    parts = [words("speech.length", seconds=seconds, elapsed=elapsed)]
    if result.first_audio is not None:
        parts.append(words("speech.first_audio", seconds=number(result.first_audio, 2, words)))
    parts.append(words("speech.factor", factor=number(result.real_time_factor, 2, words)))
    parts.append(words("speech.with_seed", seed=result.seed))
    return " · ".join(parts)
