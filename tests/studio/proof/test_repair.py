"""Repair replaces sentences with wrong words and leaves all other audio unchanged."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio import encode_audio
from engine.audio.transcription import HeardWord
from engine.errors import EngineBusy
from engine.text.tags import word_spans
from storage.repositories.scripts.hearings import Hearing
from storage.repositories.takes import NewTake, TakeRecord, TimedWord
from studio.proof.repair import MAX_ATTEMPTS, Passage, passages_of, repair
from studio.proof.take_checker import TakeChecker
from studio.takes.settings import REPAIRED
from studio.words.written_words import WrittenWords

RATE = 16_000
PAUSE = 0.2  # seconds between sentences
TEXT = "One fox ran. Two dogs slept there. [pause:0.2] Six."
# Each tone stands for a sentence, correct or wrong.
TONES = {200: "One fox ran", 300: "Two cats slept there", 350: "Two dogs crept there", 400: "Two dogs slept there",
         500: "Six", 600: "Sick", 700: "no", 250: "One fox ran Six", 800: "One fox ran Sick"}  # fmt: skip
RIGHT = {words: tone for tone, words in TONES.items()}


def tone(frequency: int, seconds: float) -> NDArray[np.float32]:
    return (0.3 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def sound(*tones: int, seconds: float = 0.4, before: float = 0.0, after: float = 0.0) -> NDArray[np.float32]:
    silence = np.zeros(round(PAUSE * RATE), np.float32)
    parts = [part for each in tones for part in (silence, tone(each, seconds))][1:]
    edges = [np.zeros(round(length * RATE), np.float32) for length in (before, after)]
    return np.concatenate((edges[0], *parts, edges[1]))


def file_of(samples: NDArray[np.float32]) -> bytes:
    return encode_audio(samples, RATE, "flac")


def samples_of(file: bytes) -> NDArray[np.float32]:
    samples, rate = soundfile.read(io.BytesIO(file), dtype="float32")
    assert rate == RATE
    return np.asarray(samples)


def bursts(samples: NDArray[np.float32]) -> Iterator[tuple[int, float, float]]:
    """Yield the frequency, and the begin and end in seconds, of each tone."""
    loud = np.flatnonzero(np.abs(samples) > 0.003)
    for run in np.split(loud, np.flatnonzero(np.diff(loud) > 0.02 * RATE) + 1):
        part = samples[run[0] : run[-1] + 1]
        crossings = np.count_nonzero(np.diff(np.signbit(part)))
        yield round(crossings * RATE / 2 / len(part) / 50) * 50, run[0] / RATE, run[-1] / RATE


class ToneRecogniser:
    """Transcribes each tone as its sentence."""

    name, ready = "tones", True

    def transcribe(self, sound: bytes, language: str = "") -> str:
        return " ".join(TONES[frequency] for frequency, _, _ in bursts(samples_of(sound)))

    def transcribe_words(self, sound: bytes, language: str = "") -> Sequence[HeardWord]:
        found = []
        for frequency, begin, end in bursts(samples_of(sound)):
            words = TONES[frequency].split()
            length = (end - begin) / len(words)
            found += [HeardWord(word, begin + i * length, begin + (i + 1) * length) for i, word in enumerate(words)]
        return found


CHECKER = TakeChecker(ToneRecogniser(), "en")


def timed(text: str, file: bytes) -> list[TimedWord]:
    return CHECKER.word_times(text, file)


def take_of(file: bytes, text: str = TEXT, *, words: bool = True) -> TakeRecord:
    return TakeRecord(
        id="a" * 32, owner="", created=datetime.now(UTC), listed=True, starred=False, text=text, voice_id="b" * 32,
        voice_name="Ann", seed=5, settings={"temperature": 0.3}, model="fake", duration=len(samples_of(file)) / RATE,
        real_time_factor=None, first_audio=None, stop_reason="end", size=len(file), script_id=None,
        words=tuple(timed(text, file)) if words else (),
    )  # fmt: skip


@dataclass
class ToneVoice:
    """Speaks a text as the next of the tones listed for it, with silence at both ends."""

    tones: dict[str, list[int]]
    seconds: float = 0.4
    said: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> NewTake | None:
        self.said.append(text)
        file = file_of(sound(*self.tones[text][:1], seconds=self.seconds, before=0.13, after=0.31))
        self.tones[text][:1] = []
        return NewTake(
            text=text, audio=file, duration=1, seed=9, voice_name="Ann", model="fake", words=timed(text, file)
        )


def run_repair(
    take: TakeRecord,
    file: bytes,
    speak: Callable[[str], NewTake | None],
    model: str = "fake",
    checker: TakeChecker = CHECKER,
) -> tuple[tuple[NewTake, Hearing] | None, list[int]]:
    heard, attempts = checker.check(take.text, file), []
    tries = repair(take, file, heard, model=model, speak=speak, checker=checker)
    while True:
        try:
            attempts.append(next(tries))
        except StopIteration as over:
            return over.value, attempts


@pytest.mark.parametrize("model_times", [True, False], ids=["times of the model", "times of the recogniser"])
def test_only_the_wrong_sentence_is_replaced(model_times: bool) -> None:
    file = file_of(sound(200, 300, 500, before=0.1))
    voice = ToneVoice({"Two dogs slept there.": [300, 350, 400]}, seconds=0.9)
    better, attempts = run_repair(take_of(file, words=model_times), file, voice)
    assert better is not None
    spoken, hearing = better
    assert (attempts, voice.said) == ([1, 2, 3], ["Two dogs slept there."] * 3)
    assert (hearing.word_error, hearing.heard) == (0, "One fox ran Two dogs slept there Six")
    assert (spoken.text, spoken.seed, spoken.settings) == (TEXT, 5, {"temperature": 0.3, "mended": 1})
    assert spoken.duration == pytest.approx(len(samples_of(spoken.audio)) / RATE)
    old, new = samples_of(file), samples_of(spoken.audio)
    first, last = round(0.65 * RATE), round(0.5 * RATE)
    np.testing.assert_array_equal(new[:first], old[:first])
    np.testing.assert_array_equal(new[-last:], old[-last:])
    pauses = [b[1] - a[2] for a, b in pairwise(bursts(new))]
    assert pauses == pytest.approx([PAUSE, PAUSE], abs=0.02), "pauses keep their length"
    if model_times:
        wanted = timed(TEXT, spoken.audio)
        assert [word[:2] for word in spoken.words] == [word[:2] for word in wanted]
        assert np.allclose([w[2:] for w in spoken.words], [w[2:] for w in wanted], atol=0.02)
    else:
        assert spoken.words == []


def test_each_wrong_sentence_is_replaced_by_its_best_try() -> None:
    file = file_of(sound(700, 300, 600))
    voice = ToneVoice({
        "One fox ran.": [200], "Two dogs slept there.": [700, 700, 700, 700], "Six.": [600, 500],
    })  # fmt: skip
    better, attempts = run_repair(take_of(file), file, voice)
    assert better is not None
    assert attempts == [1, 2, 3, 4][:MAX_ATTEMPTS]
    assert better[1].heard == "One fox ran Two cats slept there Six"
    assert better[0].settings[REPAIRED] == 2
    assert voice.said.count("One fox ran.") == 1


@pytest.mark.parametrize(("before", "count"), [(None, 2), (1, 3), (3, 3)])
def test_the_count_of_repaired_sentences_includes_joined_ones_and_earlier_repairs(
    before: int | None, count: int
) -> None:
    text = "One fox ran. Six. Two dogs slept there."
    file = file_of(sound(800, 400, seconds=0.9))  # no silence between the first two sentences
    take = take_of(file, text)
    if before is not None:
        take = replace(take, settings={**take.settings, REPAIRED: before})
    voice = ToneVoice({"One fox ran. Six.": [250]})
    better, _ = run_repair(take, file, voice)
    assert better is not None
    assert better[0].settings[REPAIRED] == count


def test_take_without_improvement_is_kept() -> None:
    file = file_of(sound(200, 300, 500))
    assert run_repair(take_of(file), file, ToneVoice({"Two dogs slept there.": [300, 700, 300, 300]})) == (
        None,
        [1, 2, 3, 4],
    )
    right = file_of(sound(200, 400, 500))
    assert run_repair(take_of(right), right, ToneVoice({})) == (None, [])


def test_sentence_wrong_only_in_context_is_tried_again() -> None:
    """The recogniser's transcript of a word depends on its context."""

    class Contextual(ToneRecogniser):
        def transcribe(self, sound: bytes, language: str = "") -> str:
            long = len(list(bursts(samples_of(sound)))) > 1 and samples_of(sound).size < 1.6 * RATE
            return super().transcribe(sound).replace("dogs slept", "dogs crept") if long else super().transcribe(sound)

    file, checker = file_of(sound(200, 300, 500)), TakeChecker(Contextual(), "en")
    takes = [0.3, 0.3, 1.0]  # seconds

    def speak(text: str) -> NewTake | None:
        return ToneVoice({text: [400]}, seconds=takes.pop(0))(text)

    better, attempts = run_repair(take_of(file), file, speak, checker=checker)
    assert better is not None
    assert (better[1].word_error, attempts, takes) == (0, [1, 2, 3], [])


def test_stop_keeps_improvements_so_far() -> None:
    file = file_of(sound(200, 300, 600))
    voice = ToneVoice({"Two dogs slept there.": [350, 400], "Six.": [600]})
    for stopped in (lambda: None, _busy, _spoken_by_another_model):
        voice.tones = {"Two dogs slept there.": [400]}
        better, attempts = run_repair(
            take_of(file),
            file,
            lambda text, stopped=stopped: stopped() if text == "Six." else voice(text),  # type: ignore[misc]
        )
        assert better is not None
        assert (attempts, better[1].heard) == ([1], "One fox ran Two dogs slept there Sick")
    with pytest.raises(EngineBusy):
        run_repair(take_of(file), file, lambda _text: _busy())


def _busy() -> None:
    raise EngineBusy("engine.full")


def _spoken_by_another_model() -> NewTake:
    """Its voice and its sampling rate may differ."""
    spoken = ToneVoice({"Six.": [500]})("Six.")
    assert spoken is not None
    return replace(spoken, model="another")


@pytest.mark.parametrize(
    ("text", "model", "tones"),
    [
        (TEXT, "another", (200, 300, 500)),
        ("[whisper] One fox ran. Two dogs slept there. Six.", "fake", (200, 300, 500)),
        ("<|speaker:0|>One fox ran. <|speaker:1|>Two dogs slept there. Six.", "fake", (200, 300, 500)),
        ("Two dogs slept there", "fake", (300,)),
    ],
    ids=["of another model", "style", "speakers", "one sentence"],
)
def test_unsplittable_takes_are_repeated_whole(text: str, model: str, tones: tuple[int, ...]) -> None:
    file = file_of(sound(*tones))
    voice = ToneVoice({text: [400] * MAX_ATTEMPTS})
    better, _ = run_repair(take_of(file, text), file, voice, model)
    assert set(voice.said) == {text}
    if len(tones) == 1:
        assert better is not None
        assert (better[0].seed, better[1].word_error) == (9, 0), "it is a new take"


@example(
    gaps=[0.0, 0.0, 0.25, 0.0], lengths=[0.5, 0.5, 0.203125, 0.5], error=-0.09375, known=[False, False, True, True]
)
@example(
    gaps=[0.25, 0.0, 0.0, 0.0], lengths=[0.203125, 0.5, 0.5, 0.5], error=-0.09375, known=[True, True, False, False]
)
@given(
    gaps=st.lists(st.floats(0, 0.4), min_size=4, max_size=4),
    lengths=st.lists(st.floats(0.2, 0.8), min_size=4, max_size=4),
    error=st.floats(-0.1, 0.1),
    known=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_passages_are_disjoint_and_cut_in_silence(
    gaps: list[float], lengths: list[float], error: float, known: list[bool]
) -> None:
    """For all pauses, with word times that are inexact by a tenth of a second, or missing."""
    text = "First one. Second one. Third one. Fourth one."
    parts: list[NDArray[np.float32]] = []
    words, at = [], 0.0
    spans = word_spans(text)
    for i, (gap, length) in enumerate(zip(gaps, lengths, strict=True)):
        parts += [np.zeros(round(gap * RATE), np.float32), tone(200 + 100 * i, length)]
        at += round(gap * RATE) / RATE
        if known[i]:
            middle = at + length / 2
            words += [
                TimedWord(*spans[2 * i], max(0, at + error), middle + error),
                TimedWord(*spans[2 * i + 1], middle + error, at + length + error),
            ]
        at += round(length * RATE) / RATE
    samples = np.concatenate(parts)
    passages = passages_of(text, words, samples, RATE)
    assert passages[0].start == 0
    assert passages[-1].end == len(text)
    for passage in passages:
        assert 0 <= passage.first < passage.last <= len(samples)
    for before, after in pairwise(passages):
        assert before.end < after.start
        assert before.last <= after.first
        assert np.abs(samples[before.last : after.first]).max(initial=0) < 0.02
        i = sum(span[0] < after.start for span in spans) // 2
        assert known[i - 1]
        assert known[i]
        assert gaps[i] > 0.04, "no cut without a pause"
    cuts = {sum(span[0] < each.start for span in spans) // 2 for each in passages[1:]}
    assert {i for i in (1, 2, 3) if gaps[i] > 0.3 and known[i - 1] and known[i]} <= cuts


def test_sentences_without_spaces_are_passages_of_their_own() -> None:
    text = "今日は晴れ。明日は雨。"
    heard = [HeardWord("今日", 0, 0.2), HeardWord("は晴れ。", 0.2, 0.4), HeardWord("明日は雨。", 0.6, 1.0)]
    words = WrittenWords(text).follow(heard)
    assert [passage[:2] for passage in map(astuple, passages_of(text, words, sound(200, 300), RATE))] == [
        (0, 6), (6, 11)
    ]  # fmt: skip


def test_silence_has_no_passages() -> None:
    assert passages_of(TEXT, [], np.zeros(RATE, np.float32), RATE) == []
    assert passages_of("One.", [], tone(200, 0.5), RATE) == [Passage(0, 4, 0, RATE // 2)]
