from dataclasses import replace

import pytest

from cli import report
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, StopReason


def result(*reasons: StopReason, frames: int = 20) -> SpeechResult:
    segments = tuple(SegmentResult(f"Segment {i}.", reason, frames, 1) for i, reason in enumerate(reasons))
    overall: StopReason = "length" if "length" in reasons else reasons[-1]
    return SpeechResult(overall, frames, 2.0, 0.9, 0.25, 5, segments)


@pytest.mark.parametrize(
    ("spoken", "says"),
    [
        (result("end", "end"), "Spoken to the end"),
        (
            replace(result("end"), underruns=2, stall_seconds=0.75),
            "Spoken to the end",
        ),
        (result("length"), "Cut off because it did not end: the end may be missing or repeated"),
        (
            result("end", "length", "end", "length"),
            "Segment 2, 4 of 4 was cut off because it did not end: words may be missing or repeated",
        ),
        (
            result("short"),
            "Too short for its words, some of which are probably missing: compare the voice's clip with its transcript",
        ),
        (
            result("short", "length", "short"),
            (
                "Segment 2 of 3 was cut off because it did not end: words may be missing or repeated; "
                "Segment 1, 3 of 3 is too short for its words, some of which are probably missing"
            ),
        ),
        (result("end", "cancelled"), "Stopped; what was spoken is kept"),
        (result("cancelled", frames=0), "Stopped before anything was spoken."),
        (result("end", frames=0), "Nothing was spoken."),
    ],
)
def test_ending_describes_the_stop_reasons(spoken: SpeechResult, says: str) -> None:
    assert report.ending(spoken) == says


def test_figures_of_a_result() -> None:
    assert report.figures(result("end")) == (
        "2.0 s in 0.9 s · first audio after 0.25 s · real-time factor 0.45 · seed 5"
    )
    assert "first audio" not in report.figures(replace(result("end"), first_audio=None))


def test_progress_counts_segments_only_if_there_are_several() -> None:
    one = AudioChunk(None, 0, 3, 0.5, 0, 1, "a")  # type: ignore[arg-type]
    assert report.progress(one, 1.0) == "1.0 s spoken · 2.0 × real time"
    many = AudioChunk(None, 0, 3, 0.0, 1, 5, "a")  # type: ignore[arg-type]
    assert report.progress(many, 1.0) == "Segment 2 of 5 · 1.0 s spoken"
