"""The reference doctor: judges a clip before a voice is made of it, and repairs it.

`examine` measures a clip; each `Finding` of its `Report` is a green, amber or red light with a number, a `Sentence`
and, where one exists, a `Fix` that `mend` applies.
"""

from engine.audio.doctor.findings import Finding, Light, Measure
from engine.audio.doctor.fixes import Fix, apply, mend
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
    "mend",
]
