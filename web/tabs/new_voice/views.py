"""The engine's doctor, as the page tells it: everything that the page knows of its face is in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.audio.doctor import Fix, check_transcript, examine, mend
from engine.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from engine.audio.decode import Recording
    from engine.audio.doctor import Finding
    from web.ui.i18n import Words

# {"light", "word", "sentence", "fix", "label", "part"}: what doctor.js shows of a finding.
Row = dict[str, Any]


@dataclass(frozen=True)
class Examination:
    """What was found in a part of a clip.

    rows: one for each thing looked at. light: the worst of them. best: start and end of the best 8 to 15 s, None where
    nobody speaks. spoken: seconds of speech.
    """

    rows: list[Row]
    light: str
    best: tuple[float, float] | None
    spoken: float


def examined(part: Recording, start: float, words: Words) -> Examination:
    """`start`: where in its file the part begins, in seconds. Times come out as times of the file."""
    report = examine(part.samples.numpy(), part.sample_rate)
    parts = {fix: _moved(span, start) for fix, span in report.parts.items()}
    rows = [_row(finding, words, parts) for finding in report.findings]
    return Examination(rows, report.light, parts.get(Fix.EXCERPT), report.spoken)


def compared(transcript: str, spoken: float, words: Words) -> Row:
    """Whether the number of words fits so many seconds of speech."""
    return _row(check_transcript(transcript, spoken), words, {})


def mended(clip: Path | bytes, fix: Fix | None) -> bytes:
    """A clip, or its path, with one fix applied: a WAV file. Raises InvalidInput for none."""
    if fix is None:
        raise InvalidInput("That is nothing that can be mended. Reload the page.")
    return mend(clip, [fix])


def _row(finding: Finding, words: Words, parts: dict[Fix, tuple[float, float]]) -> Row:
    fix = finding.fix
    return {
        "light": finding.light,
        "word": words(f"doctor.{finding.light}"),
        "sentence": words(f"doctor.{finding.measure}_{finding.what}", **finding.parameters),
        "fix": fix and fix.value,
        "label": fix and words(f"doctor.fix_{fix.value}"),
        "part": fix and parts.get(fix),
    }


def _moved(span: tuple[float, float], by: float) -> tuple[float, float]:
    return round(span[0] + by, 3), round(span[1] + by, 3)
