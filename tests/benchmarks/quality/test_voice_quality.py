"""Collection of the model's takes, and statistics of its runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import soundfile

from benchmarks import _report
from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.quality import endings, real_person, voice_quality, word_times
from benchmarks.quality.kept import kept_results
from benchmarks.quality.takes import Run, model_parser, parse, result_name
from benchmarks.quality.utterances import backwards, speech, teachers
from benchmarks.quality.voice_quality import _parse, figures, save
from engine.models.sampling import SamplingOptions
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, SegmentResult, SpeechResult

RATE = 16_000


@dataclass
class Speech:
    """A fake speech: each of `values` is a chunk of ten equal samples, placed in the take at one of `starts`."""

    starts: tuple[int, ...]
    values: tuple[float, ...]
    result: SpeechResult | None = None

    def __iter__(self) -> Iterator[AudioChunk]:
        for start, value in zip(self.starts, self.values, strict=True):
            yield AudioChunk(np.full(10, value, dtype=np.float32), start, 1, 0.1, 0, 1, "")
        segments = (SegmentResult("", "end", 3, 1), SegmentResult("", "end", 3, 2))
        self.result = SpeechResult("end", 6, 2.0, 0.5, 0.1, 0, segments)


class Engine:
    """A fake engine that records the requests of the benchmark."""

    info = SimpleNamespace(sample_rate=RATE)

    def __init__(self, starts: tuple[int, ...]) -> None:
        self._starts = starts
        self.requests: list[tuple[str, str, int | None]] = []

    def encode_voice(self, name: str, references: list[tuple[Path, str]]) -> "Encoded":
        return Encoded(Named(f"{name}: {references[0][1]}"))

    def speak(self, text: str, voice: "Named", options: SpeakOptions) -> Speech:
        self.requests.append((text, voice.name, options.seed))
        self.sampling = options.temperature, options.top_p, options.top_k
        return Speech(self._starts, tuple(0.1 * n for n in range(1, len(self._starts) + 1)))


@dataclass(frozen=True)
class Named:
    name: str


@dataclass(frozen=True)
class Encoded:
    voice: Named


@pytest.fixture
def data(tmp_path: Path) -> EvaluationSet:
    def clip(name: str) -> Clip:
        ramp = np.linspace(-0.5, 0.5, RATE, dtype=np.float32)
        soundfile.write(tmp_path / f"{name}.wav", ramp, RATE, subtype="FLOAT")
        return Clip(tmp_path / f"{name}.wav", name)

    def speaker(name: str) -> Speaker:
        return Speaker(name, "", clip(f"{name} reference"), (clip(f"{name} one"), clip(f"{name} two")))

    return EvaluationSet((speaker("a"), speaker("b")), ())


def test_sentences_are_spoken_in_their_voices_with_own_seeds(data: EvaluationSet) -> None:
    engine = Engine((0, 10, 20))
    takes = list(speech(data, engine, SamplingOptions(0.5, 0.9, 7)))  # type: ignore[arg-type]
    assert engine.sampling == (0.5, 0.9, 7)
    assert engine.requests == [
        ("a one", "a: a reference", 0),
        ("a two", "a: a reference", 1),
        ("b one", "b: b reference", 2),
        ("b two", "b: b reference", 3),
    ]
    assert [take.clip.text for take in takes] == [text for text, _, _ in engine.requests]
    assert takes[0].samples.tolist() == pytest.approx([0.1] * 10 + [0.2] * 10 + [0.3] * 10)


def test_retried_segment_replaces_the_first_attempt(data: EvaluationSet) -> None:
    take = next(iter(speech(data, Engine((0, 10, 10)), SamplingOptions())))  # type: ignore[arg-type]
    assert take.samples.tolist() == pytest.approx([0.1] * 10 + [0.3] * 10)
    assert take.run is not None
    assert (take.run.attempts, take.run.stop_reason) == (2, "end")
    assert take.run.real_time_factor == pytest.approx(0.25)


def test_backwards_reverses_the_recordings(data: EvaluationSet) -> None:
    for forward, reverse in zip(teachers(data), backwards(data), strict=True):
        assert np.array_equal(forward.samples, reverse.samples[::-1])
        assert forward.clip == reverse.clip


def test_run_statistics_are_shares_of_all_runs() -> None:
    from tests.benchmarks.quality.test_meter import MODEL

    runs = [Run(voice, reason, attempts, 0.4, 0.2) for voice, reason, attempts in
            (("low", "end", 1), ("low", "end", 2), ("high", "length", 2))]  # fmt: skip
    found = figures(MODEL, runs)
    assert found["runs that end properly"]["value"] == pytest.approx(2 / 3, abs=1e-3)
    assert found["runs in which a segment was spoken again"]["value"] == pytest.approx(2 / 3, abs=1e-3)
    assert found["runs that end properly"]["groups"] == 2
    assert found["first audio, s"]["value"] == 0.2


@pytest.mark.parametrize(
    "part",
    [["--only", "speech"], ["--voices", "2"], ["--codec", "codec"], ["--temperature", "0.1"]],
    ids=lambda part: part[0],
)
def test_a_part_replaces_no_published_results(part: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published, kept = tmp_path / "results", tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr(_report, "RESULTS", published)
    save({"figures": 1}, _parse([*part, "--keep", str(kept)]))
    assert not published.exists()
    assert (kept_results(kept)["name"], kept_results(kept)["figures"]) == (None, 1)
    save({"figures": 2}, _parse([*part, "--name", "mine"]))
    assert [path.name for path in published.iterdir()] == ["voice_quality-mine.json"]


def test_the_whole_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    save({}, _parse([]))
    assert [path.name for path in tmp_path.iterdir()] == ["voice_quality.json"]


def test_results_of_other_models_have_their_names() -> None:
    parser = model_parser(None)
    for arguments, name in {
        (): "endings",
        ("--model", "folder/mine"): "endings-mine",
        ("--model", "folder/mine", "--name", "try"): "endings-try",
        ("--name", "try"): "endings-try",
    }.items():
        assert result_name("endings", parse(parser, arguments)) == name


@pytest.mark.parametrize(
    ("benchmark", "whole", "part"),
    [
        (voice_quality, ["--only", "speech", "codec", "backwards", "teachers"], ["--top-k", "5"]),
        (endings, ["--keep", "folder"], ["--runs", "5"]),
        (endings, ["--device", "auto"], ["--readings", "1"]),
        (word_times, [], ["--sentences", "1"]),
        (real_person, [], ["--top-p", "0.5"]),
    ],
    ids=lambda value: getattr(value, "__name__", None) and value.__name__.rpartition(".")[2],
)
def test_only_whole_results_need_no_name(benchmark: ModuleType, whole: list[str], part: list[str]) -> None:
    for more, named in (([], False), (["--model", "folder/mine"], False), (["--name", "try"], True)):
        assert result_name("results", benchmark._parse([*whole, *more]))
        assert bool(result_name("results", benchmark._parse([*part, *more]))) == named
