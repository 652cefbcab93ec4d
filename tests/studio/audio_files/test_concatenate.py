"""Takes are concatenated into one file, sample-exactly where no conversion is needed."""

import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine.audio import encode_audio
from engine.errors import InvalidInput, InvalidOption
from studio.audio_files.concatenate import FileFormat, TakeAudio, concatenate_takes, write_takes

RATE = 22050


def tone(seconds: float, rate: int = RATE, hertz: float = 440.0) -> np.ndarray:
    return np.rint(0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate) * 32768) / 32768


@pytest.mark.parametrize("format", ["wav", "flac"])
def test_lossless_file_equals_takes_and_silence(format: FileFormat, tmp_path: Path) -> None:
    first, second = tone(0.5), tone(0.25, hertz=880.0)
    path = tmp_path / "script"
    takes = [TakeAudio(encode_audio(first, RATE, "flac"), 0.1), TakeAudio(encode_audio(second, RATE, "flac"), 9.0)]
    with path.open("wb+") as file:
        seconds = concatenate_takes(file, takes, format)
    samples, rate = soundfile.read(path)
    assert rate == RATE
    assert seconds == len(samples) / rate == pytest.approx(0.85, abs=1e-4)
    assert np.array_equal(samples, np.concatenate([first, np.zeros(round(0.1 * RATE)), second]))


@pytest.mark.parametrize(("format", "rate"), [("mp3", 44100), ("opus", 48000)])
def test_lossy_file_has_total_length_and_pause(format: FileFormat, rate: int) -> None:
    file = io.BytesIO()
    takes = [
        TakeAudio(encode_audio(tone(1.0, 44100), 44100, "flac"), 0.5),
        TakeAudio(encode_audio(tone(1.0), RATE, "flac")),
    ]
    assert concatenate_takes(file, takes, format) == pytest.approx(2.5, abs=1e-3)
    file.seek(0)
    samples, written = soundfile.read(file)
    assert written == rate
    assert len(samples) / written == pytest.approx(2.5, abs=0.1)
    middle = samples[round(1.15 * rate) : round(1.35 * rate)]
    assert np.abs(middle).max() < 0.05
    assert np.abs(samples[round(1.7 * rate) : round(2.3 * rate)]).max() > 0.4


def test_file_of_a_loudness_has_a_rate_of_its_format() -> None:
    file = io.BytesIO()
    write_takes(file, [TakeAudio(encode_audio(tone(1.0, 44100), 44100, "flac"))], "opus", {}, -16.0)
    file.seek(0)
    assert soundfile.info(file).samplerate == 48000


def test_takes_are_consumed_one_by_one_in_constant_memory() -> None:
    flac = encode_audio(tone(10.0), RATE, "flac")

    class Sink(io.RawIOBase):
        """A seekable file that discards written data and tracks only its position and size."""

        def __init__(self) -> None:
            self.place, self.end = 0, 0

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            self.place = (0, self.place, self.end)[whence] + offset
            return self.place

        def tell(self) -> int:
            return self.place

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.place += len(data)
            self.end = max(self.end, self.place)
            return len(data)

    sink = Sink()
    tracemalloc.start()
    try:
        concatenate_takes(sink, (TakeAudio(flac, 0.1) for _ in range(60)), "wav")  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sink.end > 60 * 10 * RATE * 2
    assert peak < sink.end / 10


def test_invalid_takes_and_formats_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="Nothing"):
        concatenate_takes(io.BytesIO(), [], "wav")
    with pytest.raises(InvalidInput, match="damaged"):
        concatenate_takes(io.BytesIO(), [TakeAudio(b"fLaC and nothing")], "wav")
    with pytest.raises(InvalidOption, match="aiff"):
        concatenate_takes(io.BytesIO(), [], "aiff")  # type: ignore[arg-type]
