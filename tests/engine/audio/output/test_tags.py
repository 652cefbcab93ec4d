"""Tags written by both encoders in every format, and read from any file."""

import io
from typing import get_args

import numpy as np
import pytest

from engine.audio.output.encode import encode_audio
from engine.audio.output.id3 import id3_tag
from engine.audio.output.stream import STREAM_FORMATS, StreamEncoder, StreamFormat
from engine.audio.output.tags import LONGEST_TAG, read_tags
from engine.errors import UnusableReference
from studio.audio_files.concatenate import FileFormat, TakeAudio, concatenate_takes

RATE = 22_050
SAMPLES = (np.sin(np.arange(RATE // 4) / 20) * 0.3).astype(np.float32)
TAGS = {"title": "Prozeß 審判", "artist": "Somebody", "comment": "a=1; b=%C3%A4", "date": "2026-01-31"}


@pytest.mark.parametrize("format", get_args(FileFormat))
def test_encoded_and_concatenated_files_have_tags(format: FileFormat) -> None:
    joined = io.BytesIO()
    concatenate_takes(joined, [TakeAudio(encode_audio(SAMPLES, RATE, "flac"))], format, TAGS)
    for file in (encode_audio(SAMPLES, RATE, format, TAGS), joined.getvalue()):
        found = read_tags(file)
        assert found.items() >= {name: TAGS[name] for name in ("title", "artist", "comment")}.items()


@pytest.mark.parametrize("format", STREAM_FORMATS)
def test_streams_begin_with_tags(format: StreamFormat) -> None:
    streams = []
    for tags in (TAGS, None):
        encoder = StreamEncoder(format, RATE, tags=tags)
        streams.append(encoder.encode(SAMPLES) + encoder.finish())
    if format == "pcm":
        assert streams[0] == streams[1]
        assert read_tags(streams[0]) == {}
    else:
        assert read_tags(streams[0]) == TAGS
        assert read_tags(streams[1]) == {}


def test_tags_do_not_change_samples() -> None:
    tagged, plain = (np.frombuffer(encode_audio(SAMPLES, RATE, "wav", tags), "<i2") for tags in (TAGS, None))
    assert tagged[-len(SAMPLES) :].tobytes() == plain[-len(SAMPLES) :].tobytes()
    tagged_mp3, plain_mp3 = (encode_audio(SAMPLES, RATE, "mp3", tags) for tags in (TAGS, None))
    assert tagged_mp3 == id3_tag(TAGS) + plain_mp3


@pytest.mark.parametrize(
    "data", [b"", b"no audio", b"fLaC" + bytes(60), b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f" + bytes(99)]
)
def test_invalid_audio_has_no_tags(data: bytes) -> None:
    assert read_tags(data) == {}


def test_missing_file_is_rejected() -> None:
    with pytest.raises(UnusableReference):
        read_tags("nothing.wav")


def test_long_tags_are_cut() -> None:
    made = encode_audio(SAMPLES, RATE, "flac", {"title": "x" * (LONGEST_TAG + 1)})
    assert read_tags(made) == {"title": "x" * LONGEST_TAG}


def test_length_of_an_mp3_tag_has_seven_bits_in_each_byte() -> None:
    content = b"\x03" + b"x" * 20_000
    size = bytes([0, 1, 0x1C, 0x21])  # 1 * 128**2 + 0x1C * 128 + 0x21
    assert id3_tag({"title": "x" * 20_000}) == b"ID3\x04\0\0\0\x01\x1c\x2bTIT2" + size + b"\0\0" + content
