"""Streamed encoding gives valid files of each format, independent of chunk sizes."""

import io
from itertools import accumulate, pairwise

import av
import numpy as np
import pytest
import soundfile

from engine.audio.output.encode import encode_audio
from engine.audio.output.stream import STREAM_FORMATS, StreamEncoder, StreamFormat
from engine.audio.output.tags import Tags
from engine.errors import InvalidOption

RATE = 22_050
CODECS = {"mp3": "mp3float", "opus": "opus", "aac": "aac", "flac": "flac", "wav": "pcm_s16le"}


def tone(seconds: float, pitch: float = 220.0) -> np.ndarray:
    times = np.arange(round(RATE * seconds)) / RATE
    return (0.3 * np.sin(2 * np.pi * pitch * times)).astype(np.float32)


def encoded(
    samples: np.ndarray, step: int, format: StreamFormat, *, sample_rate: int | None = None, speed: float = 1.0
) -> list[bytes]:
    encoder = StreamEncoder(format, RATE, sample_rate=sample_rate, speed=speed)
    return [
        *(encoder.encode(samples[start : start + step]) for start in range(0, len(samples), step)),
        encoder.finish(),
    ]


def decoded(data: bytes, format: StreamFormat, rate: int = RATE) -> tuple[np.ndarray, int]:
    if format == "pcm":
        return np.frombuffer(data, "<i2") / 32768, rate
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.audio[0]
        assert stream.codec_context.name == CODECS[format]
        frames = [frame.to_ndarray()[0] for frame in container.decode(stream)]
        samples = np.concatenate(frames)
        return samples / (32768 if samples.dtype == np.int16 else 1), stream.sample_rate


def pitch(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


@pytest.mark.parametrize("format", STREAM_FORMATS)
@pytest.mark.parametrize(("sample_rate", "speed"), [(None, 1.0), (24_000, 1.0), (None, 1.5), (16_000, 0.3)])
def test_encoded_bytes_do_not_depend_on_chunk_sizes(
    format: StreamFormat, sample_rate: int | None, speed: float
) -> None:
    samples = tone(0.7)
    whole, *others = [
        b"".join(encoded(samples, step, format, sample_rate=sample_rate, speed=speed))
        for step in (len(samples), 4096, 777)
    ]
    assert all(other == whole for other in others)
    heard, rate = decoded(whole, format, sample_rate or RATE)
    if format != "opus":  # always decoded at 48,000 Hz
        assert rate == (sample_rate or RATE)
    assert len(heard) / rate == pytest.approx(0.7 / speed, abs=0.1)  # encoders pad to whole frames
    assert pitch(heard, rate) == pytest.approx(220, abs=4)


@pytest.mark.parametrize("format", STREAM_FORMATS)
@pytest.mark.parametrize("speed", [1.0, 0.8])
def test_every_format_keeps_the_level(format: StreamFormat, speed: float) -> None:
    """A tone at full scale is not clipped. FFmpeg's AAC encoder lowers the loudest parts itself."""
    level = 0.94 if format == "aac" else 1.0
    samples = tone(1.0) * np.float32(level / 0.3)
    heard, rate = decoded(b"".join(encoded(samples, 4096, format, speed=speed)), format)
    middle = heard[round(0.3 * rate) : round(0.7 * rate)]
    assert 20 * np.log10(middle.std() * 2**0.5 / level) == pytest.approx(0, abs=0.1)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert spectrum[round(3 * 220 * len(middle) / rate)] < spectrum.max() / 300


@pytest.mark.parametrize("format", STREAM_FORMATS)
def test_every_chunk_yields_playable_bytes(format: StreamFormat) -> None:
    """Each chunk of four speech frames yields bytes, and decodable audio lags by at most 0.2 s."""
    samples, step = tone(2.0), 4096
    parts = encoded(samples, step, format)
    assert all(parts[:-1])
    given = [min(len(samples), step * (number + 1)) / RATE for number in range(len(parts) - 1)]
    for size, until in list(zip(accumulate(map(len, parts)), given, strict=False))[1:]:
        heard, rate = decoded(b"".join(parts)[:size], format)
        assert len(heard) / rate >= until - 0.2


@pytest.mark.parametrize("format", ["wav", "flac", "pcm"])
def test_lossless_streams_equal_whole_take_encoding(format: StreamFormat) -> None:
    samples = tone(0.5) * 4  # clipped
    heard, _ = decoded(b"".join(encoded(samples, 1000, format)), format)
    whole = np.frombuffer(encode_audio(samples, RATE, "pcm"), "<i2") / 32768
    np.testing.assert_array_equal(heard, whole)


def test_wav_stream_begins_with_a_streaming_header() -> None:
    data = b"".join(encoded(tone(0.1), 500, "wav"))
    assert data[:8] == b"RIFF\xff\xff\xff\xff"
    assert data[36:44] == b"data\xff\xff\xff\xff"
    assert int.from_bytes(data[24:28], "little") == RATE


@pytest.mark.parametrize("tags", [None, {"artist": "Ada"}])
@pytest.mark.parametrize("format", ["wav", "flac", "mp3"])
def test_whole_file_has_its_length_in_the_header(format: StreamFormat, tags: Tags | None) -> None:
    samples = tone(0.5)[:60_001]
    encoder = StreamEncoder(format, RATE, tags=tags, as_whole=True)
    assert b"".join(encoder.encode(part) for part in np.array_split(samples, 7)) == b""
    data = encoder.finish()
    heard, _ = soundfile.read(io.BytesIO(data))
    assert len(heard) == soundfile.info(io.BytesIO(data)).frames == len(samples)
    np.testing.assert_allclose(heard, samples, atol=0.01)


@pytest.mark.parametrize("format", STREAM_FORMATS)
def test_stream_without_samples_is_nearly_empty(format: StreamFormat) -> None:
    encoder = StreamEncoder(format, RATE, speed=2.0)
    assert encoder.encode(np.zeros(0, np.float32)) == b""
    assert len(encoder.finish()) < 200


def test_nan_is_encoded_as_silence() -> None:
    samples = np.full(100, np.nan, np.float32)
    assert b"".join(encoded(samples, 100, "pcm")) == bytes(200)


def test_higher_speed_gives_shorter_audio() -> None:
    lengths = [len(b"".join(encoded(tone(1.0), 4096, "pcm", speed=speed))) for speed in (0.25, 0.5, 1, 2, 4)]
    assert all(shorter < longer for longer, shorter in pairwise(lengths))


@pytest.mark.parametrize("speed", [0.25, 0.3, 0.8, 1.25, 3.3, 4.0])
@pytest.mark.parametrize("sample_rate", [RATE, 24_000])
def test_stream_at_a_speed_has_the_exact_length(speed: float, sample_rate: int) -> None:
    samples = tone(0.7)
    data = b"".join(encoded(samples, 777, "pcm", sample_rate=sample_rate, speed=speed))
    wanted = round(len(samples) / speed) * sample_rate / RATE
    assert len(data) / 2 == pytest.approx(wanted, abs=0 if sample_rate == RATE else 1)
    heard, _ = decoded(data, "pcm")
    assert np.abs(heard[-round(0.05 * sample_rate) :]).max() > 0.1, "nothing is lost at the end"


def test_single_samples_can_be_encoded_at_any_speed() -> None:
    samples = tone(0.002)
    assert len(b"".join(encoded(samples, 1, "pcm", speed=4.0))) / 2 == round(len(samples) / 4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "midi"}, "no audio format “midi”"),
        ({"speed": 0.2}, "speed is 0.2"),
        ({"speed": float("nan")}, "speed is nan"),
        ({"sample_rate": 4_000}, "sample rate is 4000"),
        ({"sample_rate": 96_000}, "sample rate is 96000"),
    ],
)
def test_invalid_stream_options_are_rejected(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        StreamEncoder(**{"format": "mp3", "source_rate": RATE, **options})  # type: ignore[arg-type]
