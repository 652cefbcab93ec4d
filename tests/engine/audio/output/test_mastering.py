"""Loudness of mastered files as measured by pyloudnorm, and true peaks as measured by FFmpeg."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.filter
import numpy as np
import pytest
import soundfile
from av.audio.frame import AudioFrame
from numpy.typing import NDArray
from pyloudnorm import Meter

from engine.audio.output.mastering import loudness_of, master
from tests.paths import ROOT

SPEECH = ROOT / "tests" / "fixtures" / "speech" / "flite_slt.flac"


def wav(samples: NDArray[Any], rate: int) -> io.BytesIO:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="PCM_16")
    return file


def true_peak(samples: NDArray[np.float32], rate: int) -> float:
    """Return the true peak in dB by FFmpeg's ebur128 filter."""
    graph = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=rate, format="flt", layout="mono", time_base=Fraction(1, rate))
    sink = graph.add("abuffersink")
    graph.link_nodes(source, graph.add("ebur128", "metadata=1:peak=true"), sink)
    graph.configure()
    frame = AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None], "flt", "mono")
    frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
    source.push(frame)
    source.push(None)
    peak = 0.0
    while True:
        try:
            peak = max(peak, float(sink.pull().metadata.get("lavfi.r128.true_peak", 0)))
        except (av.BlockingIOError, av.EOFError):
            return float(20 * np.log10(max(peak, 1e-9)))


def speech_with_clicks() -> tuple[NDArray[np.float32], int]:
    """Return speech with clicks, which gain alone would push beyond full scale."""
    samples, rate = soundfile.read(SPEECH, dtype="float32")
    samples = 0.1 * samples / np.abs(samples).max()
    samples[4000::8000] = 0.9
    return samples, rate


@pytest.mark.parametrize(("lufs", "peak"), [(-16.0, -1.0), (-20.0, -3.0)])
@pytest.mark.parametrize("format", ["wav", "mp3"])
@pytest.mark.parametrize("kind", ["speech", "clicks"])
def test_normalised_files_have_target_loudness_and_peaks(lufs: float, peak: float, format: str, kind: str) -> None:
    samples, rate = speech_with_clicks() if kind == "clicks" else soundfile.read(SPEECH, dtype="float32")
    made = io.BytesIO()
    reported = master(wav(samples, rate), made, format, lufs, lossy=format == "mp3")
    made.seek(0)
    heard, heard_rate = soundfile.read(made, dtype="float32")
    assert heard_rate == rate
    assert format == "mp3" or len(heard) == len(samples)
    assert reported == pytest.approx(lufs, abs=0.2)
    assert Meter(rate).integrated_loudness(heard) == pytest.approx(lufs, abs=0.5)
    assert true_peak(heard, rate) < peak


def test_the_returned_loudness_is_that_of_a_file_that_misses_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.audio.output.mastering._CORRECTIONS", 0)
    samples, rate = speech_with_clicks()
    made = io.BytesIO()
    loudness = master(wav(samples, rate), made, "wav", -14)
    made.seek(0)
    assert loudness == loudness_of([soundfile.read(made, dtype="int16")[0]], rate)
    assert loudness is not None
    assert loudness < -14.1


def test_normalisation_does_not_depend_on_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, rate = speech_with_clicks()
    whole, parts = io.BytesIO(), io.BytesIO()
    master(wav(samples, rate), whole, "wav", -16)
    monkeypatch.setattr("engine.audio.output.mastering._BLOCK", 3_001)
    master(wav(samples, rate), parts, "wav", -16)
    one, other = (soundfile.read(io.BytesIO(made.getvalue()), dtype="int16")[0].astype(int) for made in (whole, parts))
    assert np.abs(one - other).max() <= 1


@pytest.mark.parametrize("samples", [np.zeros(16_000), np.zeros(0), np.full(100, 0.1)])
def test_unmeasurable_audio_is_left_unchanged(samples: NDArray[np.float64]) -> None:
    made = io.BytesIO()
    assert master(wav(samples, 16_000), made, "wav", -16) is None
    made.seek(0)
    assert np.array_equal(soundfile.read(made)[0], soundfile.read(io.BytesIO(wav(samples, 16_000).getvalue()))[0])


def test_loudness_matches_pyloudnorm(tmp_path: Path) -> None:
    samples, rate = soundfile.read(SPEECH, dtype="int16")
    measured = loudness_of([samples[:10_000], samples[10_000:]], rate)
    assert measured == pytest.approx(Meter(rate).integrated_loudness(samples / 32768), abs=0.3)
