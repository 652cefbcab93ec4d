"""Speeches that are counted by front end."""

from contextlib import closing

import pytest

from studio.engines.model_manager import ModelManager
from studio.engines.speech_metrics import FrontEnd, SpeechMetrics
from tests.support.fake_engine import FakeEngine, Script

TEXT = "Hello there. How are you?"


def counted(metrics: SpeechMetrics, front_end: FrontEnd = "page") -> dict[str, float]:
    """Return the counts of a front end by name, without those that are 0."""
    samples = (sample for metric in metrics.collect() for sample in metric.samples)
    return {
        sample.name.removeprefix("reprise_").removesuffix("_total"): sample.value
        for sample in samples
        if sample.labels["front_end"] == front_end and sample.value and sample.name.endswith(("_total", "_count"))
    }


def manager(**script: object) -> ModelManager:
    return ModelManager(FakeEngine(Script(**script)))  # type: ignore[arg-type]


def test_speech_is_counted_once_at_its_end() -> None:
    engines = manager()
    with closing(engines.speak(TEXT)) as speech:
        speech.front_end = "page"
        chunks = list(speech)
        heard = counted(engines.metrics)
    assert heard == counted(engines.metrics)
    seconds = sum(len(chunk.samples) for chunk in chunks) / engines.info.sample_rate
    assert heard.pop("audio_seconds") == pytest.approx(seconds)
    frames = sum(chunk.frames for chunk in chunks)
    assert heard == {"speeches": 1, "characters": len(TEXT), "frames": frames, "first_audio_seconds_count": 1}
    assert not counted(engines.metrics, "script")


@pytest.mark.parametrize("leave", ["close", "cancel"])
def test_stopped_speech_is_counted_as_cancelled(leave: str) -> None:
    engines = manager()
    with closing(engines.speak(TEXT)) as speech:
        speech.front_end = "script"
        next(speech)
        if leave == "cancel":
            speech.cancel()
            list(speech)
    heard = counted(engines.metrics, "script")
    assert (heard["speeches"], heard["speeches_cancelled"], "speeches_failed" in heard) == (1, 1, False)


def test_failed_speech_is_counted_as_failed() -> None:
    engines = manager(fail_after=1, failure=RuntimeError())
    with closing(engines.speak(TEXT)) as speech:
        speech.front_end = "page"
        with pytest.raises(RuntimeError):
            list(speech)
    heard = counted(engines.metrics)
    assert (heard["speeches"], heard["speeches_failed"], "speeches_cancelled" in heard) == (1, 1, False)


def test_speech_of_a_caller_that_counts_itself_is_not_counted() -> None:
    engines = manager()
    with closing(engines.speak(TEXT)) as speech:
        list(speech)
    assert not counted(engines.metrics)
