"""HTML of the New voice tab, and views of the clip doctor's findings (`engine.audio.doctor`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from engine.audio.doctor import Fix, check_transcript, examine

if TYPE_CHECKING:
    from engine.audio.decode import Recording
    from engine.audio.doctor import Finding
    from web.ui.i18n import Texts

STEPS = ("preparing", "encoding", "saving")
DESCRIBED_STEPS = ("speaking", "saving")
# A finding for doctor.js, with keys "light", "word", "message", "fix", "label", "part".
Row = dict[str, Any]


@dataclass(frozen=True)
class FormError:
    """A problem of the form, as text for the visitor. field: CSS selector of the input to correct."""

    message: str
    field: str


def examine_part(part: Recording, start: float, texts: Texts) -> dict[str, Any]:
    """Examine a part of a clip; return the doctor's report. start: of the part, in seconds.

    rows: one per finding. light: the worst of them. verdict: a sentence about it. best: start and end of the best 8 to
    15 s, None if there is less speech. speech_seconds: seconds of speech. Times are relative to the file.
    """
    report = examine(part.samples.numpy(), part.sample_rate)
    parts = {fix: _shift(span, start) for fix, span in report.parts.items()}
    return {
        "verdict": texts(f"doctor.verdict_{report.light}"),
        "light": report.light,
        "rows": [_row(finding, texts, parts) for finding in report.findings],
        "best": report.best and _shift(report.best, start),
        "speech_seconds": report.speech_seconds,
    }


def compare_transcript(transcript: str, spoken: float, texts: Texts) -> Row:
    """Check whether the number of words fits `spoken` seconds of speech."""
    return _row(check_transcript(transcript, spoken), texts, {})


def errors_html(errors: Sequence[FormError]) -> str:
    """Return HTML of all errors. The page focuses the field of the first one (form_notice.js)."""
    lines = "".join(f"<li>{escape(error.message)}</li>" for error in errors)
    field = escape(errors[0].field)
    return f'<ul class="rp-notice rp-bad rp-faults" role="alert" data-field="{field}">{lines}</ul>'


def steps_html(current: str, texts: Texts, steps: Sequence[str] = STEPS) -> str:
    """Return HTML of the progress of saving. current: one of `steps`."""
    at = steps.index(current)
    states = ("done", "now", "next")
    lines = "".join(
        f'<li data-step="{states[(i >= at) + (i > at)]}"{" aria-current=step" if i == at else ""}>'
        f"{escape(texts(f'new.step_{step}'))}</li>"
        for i, step in enumerate(steps)
    )
    status = f'<span class="rp-unseen" role="status">{escape(texts(f"new.step_{current}"))}</span>'
    return f'<div class="rp-notice rp-busy rp-steps"><ol>{lines}</ol>{status}</div>'


def _row(finding: Finding, texts: Texts, parts: dict[Fix, tuple[float, float]]) -> Row:
    fix = finding.fix
    return {
        "light": finding.light,
        "word": texts(f"doctor.{finding.light}"),
        "message": texts.write(finding.message),
        "fix": fix and fix.value,
        "label": fix and texts.write(fix.label),
        "part": fix and parts.get(fix),
    }


def _shift(span: tuple[float, float], by: float) -> tuple[float, float]:
    return round(span[0] + by, 3), round(span[1] + by, 3)
