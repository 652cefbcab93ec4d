"""Each speaker's segments are adapted to the speaker's own clip, with the bundled model."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from torch import Tensor

from engine import Engine, SpeakOptions, Voice
from engine.codec.postfilter import Postfilter, PostfilterStream, SpeakerAdaptation
from engine.request.speech import Speech
from engine.serving import codec_worker
from tests.paths import ROOT
from tests.support.waiting import until

ADAM, CLARA = (
    Voice.from_bytes((ROOT / "assets" / "samples" / f"{name}.voice").read_bytes()) for name in ("adam", "clara")
)
OPTIONS = SpeakOptions(seed=1)


@pytest.fixture
def adaptations(monkeypatch: pytest.MonkeyPatch) -> list[SpeakerAdaptation | None]:
    """The adaptation of each stream that is filtered from now on."""
    found: list[SpeakerAdaptation | None] = []

    def recorded(
        postfilter: Postfilter, previous: PostfilterStream | None, adaptation: SpeakerAdaptation | None
    ) -> PostfilterStream:
        found.append(adaptation)
        return PostfilterStream(postfilter, previous, adaptation)

    monkeypatch.setattr(codec_worker, "PostfilterStream", recorded)
    return found


@pytest.fixture
def engine(bundled_engine: Engine) -> Iterator[Engine]:
    yield bundled_engine
    for voice in (ADAM, CLARA):
        bundled_engine.forget(voice)


def begin(speech: Speech) -> np.ndarray:
    """Return the first samples."""
    with closing(speech):
        return next(speech).samples


def test_each_speaker_has_an_adaptation_of_its_own(engine: Engine, adaptations: list[SpeakerAdaptation | None]) -> None:
    list(engine.speak("<|speaker:0|>Go. <|speaker:1|>You. <|speaker:0|>No.", [ADAM, CLARA], OPTIONS))
    begin(engine.speak("Go out.", CLARA, OPTIONS))
    adam, clara, adam_again, clara_again = adaptations
    assert adam is not None
    assert clara is not None
    assert adam is not clara
    assert adam_again is adam
    assert clara_again is clara


def test_a_voice_that_was_forgotten_is_learned_again(
    engine: Engine, adaptations: list[SpeakerAdaptation | None]
) -> None:
    first = begin(engine.speak("Go out.", ADAM, OPTIONS))
    engine.forget(ADAM)
    again = begin(engine.speak("Go out.", ADAM, OPTIONS))
    assert adaptations[0] is not adaptations[1]
    assert np.abs(first).max() > 0.1
    np.testing.assert_allclose(again, first, atol=0.02)


def test_speech_in_progress_of_a_forgotten_voice_leaves_nothing_learned(
    engine: Engine, adaptations: list[SpeakerAdaptation | None]
) -> None:
    speech = engine.speak("Go out.", ADAM, OPTIONS)
    engine.forget(ADAM)
    begin(speech)
    begin(engine.speak("Go out.", ADAM, OPTIONS))
    assert None not in adaptations
    assert adaptations[0] is not adaptations[1]


def test_a_prepared_voice_is_not_learned_again(
    engine: Engine, adaptations: list[SpeakerAdaptation | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[SpeakerAdaptation | None] = []
    plain = Postfilter.adaptation

    def recorded(self: Postfilter, clip: Tensor, copy: Tensor) -> SpeakerAdaptation | None:
        learned.append(plain(self, clip, copy))
        return learned[-1]

    monkeypatch.setattr(Postfilter, "adaptation", recorded)
    engine.prepare(replace(ADAM, codec_fingerprint="another"))
    engine.prepare(ADAM)
    until(lambda: len(learned) == 1)
    begin(engine.speak("Go out.", ADAM, OPTIONS))
    assert adaptations == learned
    assert len(learned) == 1


def test_speech_enters_before_it_learns_and_its_first_audio_comes_after(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a full engine learns nothing for speech that it refuses, and the time to the first audio is the whole one."""
    learned_at: list[float] = []
    plain = Postfilter.adaptation

    def recorded(self: Postfilter, clip: Tensor, copy: Tensor) -> SpeakerAdaptation | None:
        found = plain(self, clip, copy)
        learned_at.append(perf_counter())
        return found

    monkeypatch.setattr(Postfilter, "adaptation", recorded)
    speech = engine.speak("Go out.", ADAM, OPTIONS)
    entered = perf_counter()
    assert learned_at == []
    next(speech)
    speech.cancel()
    assert list(speech) == []
    assert speech.result is not None
    assert speech.result.first_audio is not None
    assert speech.result.first_audio > learned_at[0] - entered > 0


def test_a_voice_without_its_clip_or_with_a_damaged_one_speaks(
    engine: Engine, adaptations: list[SpeakerAdaptation | None]
) -> None:
    (reference,) = ADAM.references
    damaged = reference.clip[:200] + bytes(len(reference.clip) - 200)
    for clip in (b"", damaged):
        voice = replace(ADAM, references=(replace(reference, clip=clip),))
        assert len(begin(engine.speak("Go out.", voice, OPTIONS)))
    assert adaptations == [None, None]


def test_speech_of_several_speakers_in_one_segment_is_not_adapted(
    engine: Engine, adaptations: list[SpeakerAdaptation | None]
) -> None:
    (segment,) = engine.segments("Go out.", 2)
    both = replace(segment, text="<|speaker:0|>Go out. <|speaker:1|>No.")
    begin(engine.speak([both], [ADAM, CLARA], OPTIONS))
    assert adaptations[0] is None
