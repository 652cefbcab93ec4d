import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.errors import EngineBusy, InvalidText
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, StopReason
from web.ui import messages
from web.ui.i18n import Translations

TEXTS = Translations.load().texts(None)
GERMAN = Translations.load().texts(SimpleNamespace(headers={"accept-language": "de"}))  # type: ignore[arg-type]


def result(*reasons: StopReason, frames: int = 20, overall: StopReason | None = None) -> SpeechResult:
    segments = tuple(SegmentResult(f"Segment {i}.", reason, frames, 1) for i, reason in enumerate(reasons))
    return SpeechResult(overall or reasons[-1], frames, 2.0, 0.9, 0.25, 5, segments)


@pytest.mark.parametrize(
    ("spoken", "says"),
    [
        (result("end"), "Spoken to the end"),
        (result("end", "end"), "Spoken to the end"),
        (
            replace(result("end"), underruns=2, stall_seconds=0.75),
            "Spoken to the end",
        ),
        (result("length"), "Cut off because it did not end: the end may be missing or repeated"),
        (
            result("end", "length", "end", "length", overall="length"),
            "Segment 2, 4 of 4 was cut off because it did not end: words may be missing or repeated",
        ),
        (
            result("short"),
            "Too short for its words, some of which are probably missing: compare the voice’s clip with its transcript",
        ),
        (
            result("end", "length", "short", overall="length"),
            (
                "Segment 2 of 3 was cut off because it did not end: words may be missing or repeated; "
                "Segment 3 of 3 is too short for its words, some of which are probably missing"
            ),
        ),
        (result("end", "cancelled"), "Stopped; what was spoken is kept"),
        (result("cancelled", frames=0), "Stopped before anything was spoken."),
        (result("end", frames=0), "Nothing was spoken."),
    ],
)
def test_ending_states_the_reason(spoken: SpeechResult, says: str) -> None:
    assert messages.ending(spoken, TEXTS) == says


def test_ending_joins_numbers_and_reasons_as_the_language_does() -> None:
    both = result("length", "length", "short", overall="length")
    message = messages.ending(both, Translations.load().texts_for("ja"))
    assert message.startswith("3 区間中 1、2 が")
    assert "いるかもしれません。3 区間中 3 が" in message
    assert "1, 2" in messages.ending(both, Translations.load().texts_for("fr"))


def test_progress_counts_segments_only_if_there_are_several() -> None:
    one = AudioChunk(None, 0, 3, 0.5, 0, 1, "a")  # type: ignore[arg-type]
    assert messages.progress(one, 1.0, TEXTS) == "1.0 s spoken · 2.0 × real time"
    many = AudioChunk(None, 0, 3, 0.0, 1, 5, "a")  # type: ignore[arg-type]
    assert messages.progress(many, 1.0, TEXTS) == "Segment 2 of 5 · 1.0 s spoken"


def test_own_errors_are_shown_unchanged() -> None:
    assert messages.error_message(InvalidText("There is nothing to say."), TEXTS) == "There is nothing to say."


def test_messages_are_in_the_readers_language() -> None:
    assert messages.ending(result("cancelled", frames=0), GERMAN) == "Gestoppt, bevor etwas gesprochen war."
    one = AudioChunk(None, 0, 3, 0.5, 0, 1, "a")  # type: ignore[arg-type]
    assert messages.progress(one, 1.0, GERMAN).startswith("1,0 s gesprochen")
    assert "Protokoll" in messages.error_message(KeyError("x"), GERMAN)
    busy = EngineBusy("engine.busy", limit=1200)
    assert "(die Grenze ist 1.200)" in messages.error_message(busy, GERMAN)
    assert "(the limit is 1,200)" in messages.error_message(busy, TEXTS)


def test_other_errors_are_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert messages.error_message(RuntimeError("/secret/path"), TEXTS) == TEXTS("engine.our_fault")
    assert "/secret/path" in caplog.text


def test_notice_escapes_html() -> None:
    assert "<b>" not in messages.notice("<b>bold</b>")
    assert 'role="alert"' in messages.notice("No.", "bad")
    assert 'role="status"' in messages.notice("Yes.")


def test_lengths_are_formatted_as_in_the_browser() -> None:
    """The same cases are in logic.test.js."""
    assert [GERMAN.length(seconds) for seconds in (0.44, 9.94, 9.96, 75, 7384)] == [
        "0,4 s",
        "9,9 s",
        "0:10",
        "1:15",
        "2:03:04",
    ]
    assert Translations.load().texts_for("ja").length(2.84) == "2.8 秒"
