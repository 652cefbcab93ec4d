"""The reference doctor: checks a clip before a voice is made from it, and repairs it.

`examine` measures a clip. Each `Finding` of its `Report` is a green, amber or red light with a number, a `UserMessage`
and, if there is one, a `Fix` that `repair` applies.
"""

from engine.audio.doctor.findings import Finding, Light, Measure
from engine.audio.doctor.fixes import Fix, apply, repair
from engine.audio.doctor.report import Report, check_transcript, examine

__all__ = [
    "Finding",
    "Fix",
    "Light",
    "Measure",
    "Report",
    "apply",
    "check_transcript",
    "examine",
    "repair",
]
